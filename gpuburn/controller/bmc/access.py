"""How to reach a host's BMC, and with what account. The password stays in memory: no file and no message has it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuburn.bmc import Verified
from gpuburn.controller.site import Site
from gpuburn.strict import Refused

ADDRESS = re.compile(r"(https://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?")
FINGERPRINT = re.compile(r"([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}")
USER, PASSWORD = "GPUBURN_BMC_USER", "GPUBURN_BMC_PASSWORD"
SECRET = "gpuburn_bmc_password"
HIDDEN = "***"
WAYS = "gpuburn_bmc_ca (a file), gpuburn_bmc_fingerprint (SHA-256), or gpuburn_bmc_verify: false"


@dataclass(frozen=True, slots=True)
class Access:
    """url: https:// and the address. ca: a file; fingerprint: SHA-256 of the certificate in hex."""

    url: str
    verified: Verified
    user: str
    password: str = field(repr=False)
    ca: str = ""
    fingerprint: str = ""

    def hide(self, text: str) -> str:
        """The text without the password, wherever it came from: a BMC may say back what it was told."""
        for form in (self.password, json.dumps(self.password)[1:-1]) if self.password else ():
            text = text.replace(form, HIDDEN)
        return text


def verified(site: Site) -> Verified | None:
    """How the BMC's certificate is checked; None where no BMC is named."""
    if not site.bmc_address:
        return None
    return "ca" if site.bmc_ca else "fingerprint" if site.bmc_fingerprint else "unverified"


def check(site: Site, where: str, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse before the first watt what could never reach the BMC. Certificates of BMCs are self-signed: how one is
    trusted is the site's word, and silence is none."""
    if not site.bmc_address:
        return
    if not ADDRESS.fullmatch(site.bmc_address):
        raise Refused(f"{where}: gpuburn_bmc_address is {site.bmc_address!r}; wanted is a name or address, over https")
    if importlib.util.find_spec("redfish") is None:
        raise Refused(f"{where}: gpuburn_bmc_address needs Redfish: install gpuburn[bmc] on the controller")
    ways = [bool(site.bmc_ca), bool(site.bmc_fingerprint), not site.bmc_verify]
    if sum(ways) != 1:
        raise Refused(f"{where}: how is its BMC's certificate checked? wanted is one of {WAYS}")
    if site.bmc_fingerprint and not FINGERPRINT.fullmatch(site.bmc_fingerprint):
        raise Refused(
            f"{where}: gpuburn_bmc_fingerprint is not a SHA-256 fingerprint: 64 hex digits, with or without :"
        )
    if site.bmc_ca and not Path(site.bmc_ca).is_file():
        raise Refused(f"{where}: gpuburn_bmc_ca is {site.bmc_ca!r}: no such file on the controller")
    for variable, given in (("gpuburn_bmc_user", site.bmc_user or environment.get(USER)),
                            (SECRET, site.bmc_password or environment.get(PASSWORD))):  # fmt: skip
        if not given:
            raise Refused(f"{where}: {variable} is not set, and neither is {variable.upper()} in the environment")


def of(site: Site, variables: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Access:
    """The access that a host's variables give. variables: as Ansible has them, with the password."""
    found = ADDRESS.fullmatch(site.bmc_address)
    if found is None:
        raise Refused(f"gpuburn_bmc_address is {site.bmc_address!r}")
    user = site.bmc_user or environment.get(USER, "")
    password = variables.get(SECRET) or environment.get(PASSWORD, "")
    if not isinstance(password, str):
        raise Refused(f"{SECRET} is not text; quote it")
    return Access(
        f"https://{found[2]}{found[3] or ''}", verified(site) or "unverified", user, password,
        site.bmc_ca, site.bmc_fingerprint.replace(":", "").lower(),
    )  # fmt: skip
