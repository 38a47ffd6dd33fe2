"""One session with a BMC: every request has a deadline, every answer a bound, and nothing leads to another host.

The client is DMTF's `redfish`, which follows redirects, tries ten times, reads bodies of any length and leaves out the
check of certificates unless it has a CA file: the adapter below, which sends its requests, sees to all four.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
import types
from collections.abc import Callable
from typing import Any

import redfish
import requests
import urllib3
from redfish.rest import v1
from requests.adapters import HTTPAdapter

from gpuburn import strict
from gpuburn.controller.bmc.access import Access
from gpuburn.strict import MEBIBYTE, Refused

REQUEST = 20.0  # seconds of one request, its body included: large BMCs take 5 for a page of their log
BODY = 2 * MEBIBYTE  # bytes: a page of 1,000 log entries has about 1
PIECE = 16384
PATH = re.compile(r"/redfish/v1/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*")
NOT_THERE = (404, 405, 410, 501)
TROUBLE = (
    v1.RetriesExhaustedError, v1.BadRequestError, v1.JsonDecodingError, v1.ServerDownOrUnreachableError,
    redfish.messages.RedfishPasswordChangeRequiredError, requests.exceptions.RequestException, OSError, LookupError,
    TypeError, ValueError, AttributeError, RecursionError,
)  # fmt: skip  # the last five: of an answer to the log-in that has another form than the client takes for granted
LOGGERS = ("redfish.rest.v1", "urllib3.connectionpool")


class Absent(Refused):
    """The BMC does not have this resource."""


class Bounded(HTTPAdapter):
    """Sends a request of the client's. seconds: for each; until: when the whole look is over (monotonic)."""

    def __init__(self, access: Access, seconds: float, until: float, body: int) -> None:
        self._access, self._seconds, self._until, self._body = access, seconds, until, body
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        """With a pinned certificate: urllib3 compares it after the handshake, before it sends a byte of ours."""
        if self._access.fingerprint:
            named["assert_fingerprint"] = self._access.fingerprint
        super().init_poolmanager(*arguments, **named)

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Ignores proxies and .netrc of the environment: the password goes to the BMC and to nobody else."""
        end = min(time.monotonic() + self._seconds, self._until)
        left = end - time.monotonic()
        if left <= 0:
            raise Refused("the time for this BMC is over")
        request.headers["Accept-Encoding"] = "identity"
        request.headers.pop("Authorization", None)
        answer = super().send(request, stream=True, timeout=left, verify=self._access.ca or False, proxies={})
        with contextlib.closing(answer):
            if 300 <= answer.status_code < 400:
                raise Refused(f"status {answer.status_code}: it sends us elsewhere, and nobody follows")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise Refused("its answer is compressed, which was not asked for")
            answer._content = self._bounded(answer, end)
        return answer

    def _bounded(self, answer: requests.Response, end: float) -> bytes:
        """Whatever has come is looked at, however little: a body that drips must not outlast its deadline."""
        data = b""
        while piece := answer.raw.read1(PIECE, decode_content=False):
            data += piece
            if len(data) > self._body:
                raise Refused(f"its answer is longer than {self._body} bytes")
            if time.monotonic() > end:
                raise Refused(f"its answer took longer than {self._seconds:g} s")
        return data


class Session:
    """An open session; `with` closes it, for a BMC has few."""

    def __init__(self, access: Access, until: float, seconds: float = REQUEST, body: int = BODY) -> None:
        self._access, self._body = access, body
        for name in LOGGERS:  # they would print what the BMC says, unbounded
            logging.getLogger(name).disabled = True
        self._client = redfish.redfish_client(
            access.url, access.user, access.password, timeout=seconds, max_retry=0, cafile=access.ca or None,
            check_connectivity=False, https_adapter=Bounded(access, seconds, until, body),
        )  # fmt: skip

    def __enter__(self) -> Session:
        root = self.get("/redfish/v1/")
        with contextlib.suppress(KeyError, TypeError):
            self._client.login_url = path(root["Links"]["Sessions"]["@odata.id"])
        self._client.root_resp = root  # read already
        self._asked("/redfish/v1/SessionService/Sessions", self._client.login)
        if not self._client.get_session_key():
            raise Refused("it opened no session: no X-Auth-Token in its answer")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: types.TracebackType | None
    ) -> None:
        with contextlib.suppress(Refused):
            self._asked("the session", self._client.logout)

    def get(self, where: str) -> dict[str, Any]:
        """A resource. Raises Absent where the BMC has none, Refused for every other trouble, in one bounded line."""
        answer = self._asked(where, lambda: self._client.get(path(where)))
        if answer.status in NOT_THERE:
            raise Absent(f"{where}: status {answer.status}")
        if answer.status != 200:
            raise Refused(f"{where}: status {answer.status}")
        document = strict.loads(answer.read, where, self._body)
        if not isinstance(document, dict):
            raise Refused(f"{where}: not an object")
        return document

    def _asked(self, where: str, ask: Callable[[], Any]) -> Any:
        """Whatever the client raises, as one line of ours; nothing of what was sent is in it."""
        try:
            return ask()
        except v1.InvalidCredentialsError:
            raise Refused("it refused the account (status 401): gpuburn_bmc_user, gpuburn_bmc_password") from None
        except (
            v1.SessionCreationError
        ) as error:  # behind its first line stands what the BMC says, who was just told all
            raise Refused(f"it opened no session: {str(error).splitlines()[0]}") from None
        except TROUBLE as error:
            raise Refused(_line(self._access.hide(f"{where}: {_cause(error)}"))) from None


def path(where: Any) -> str:
    """A path below /redfish/v1/ of the same host: a link that leads anywhere else is refused."""
    if not isinstance(where, str) or len(where) > 500 or not PATH.fullmatch(where):
        raise Refused(f"{strict.short(where)}: not a path below /redfish/v1/")
    return where


def _cause(error: BaseException) -> str:
    """The first cause that says something: the client wraps it, and says nothing itself."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return f"its certificate is not trusted: {error}"
    return f"{type(error).__name__}: {error}"


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
