"""What a site says of a BMC: how its certificate is trusted is said aloud, and its password is never held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuburn import strict
from gpuburn.controller import site as sites
from gpuburn.controller.bmc import access
from gpuburn.strict import Refused

GOOD: dict[str, Any] = {
    "gpuburn_bmc_address": "10.0.0.7", "gpuburn_bmc_user": "auditor", "gpuburn_bmc_password": "s3cret-word",
    "gpuburn_bmc_fingerprint": ":".join(["AB"] * 32),
}  # fmt: skip


def checked(**changed: Any) -> access.Access:
    variables = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    site, _ = sites.read(variables, "host a")
    access.check(site, "host a", {})
    assert "s3cret-word" not in strict.encode(site).decode() + repr(site)
    return access.of(site, variables, {})


def test_a_pinned_fingerprint_is_taken_with_or_without_colons() -> None:
    one = checked()
    assert (one.url, one.verified, one.fingerprint, one.password) == (
        "https://10.0.0.7", "fingerprint", "ab" * 32, "s3cret-word",
    )  # fmt: skip
    assert checked(gpuburn_bmc_fingerprint="ab" * 32) == one
    assert "s3cret-word" not in repr(one)


def test_a_ca_or_the_word_that_nothing_is_verified(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-")
    assert checked(gpuburn_bmc_fingerprint=None, gpuburn_bmc_ca=str(tmp_path / "ca.pem")).verified == "ca"
    assert checked(gpuburn_bmc_fingerprint=None, gpuburn_bmc_verify=False).verified == "unverified"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"gpuburn_bmc_fingerprint": None}, "how is its BMC's certificate checked"),
        ({"gpuburn_bmc_verify": False}, "how is its BMC's certificate checked"),
        ({"gpuburn_bmc_fingerprint": "ab" * 20}, "not a SHA-256 fingerprint"),
        ({"gpuburn_bmc_fingerprint": None, "gpuburn_bmc_ca": "/none.pem"}, "no such file"),
        ({"gpuburn_bmc_address": "http://10.0.0.7"}, "over https"),
        ({"gpuburn_bmc_address": "https://10.0.0.7/x"}, "over https"),
        ({"gpuburn_bmc_address": "a@b"}, "over https"),
        ({"gpuburn_bmc_user": None}, "GPUBURN_BMC_USER"),
        ({"gpuburn_bmc_password": None}, "GPUBURN_BMC_PASSWORD"),
        ({"gpuburn_bmc_password": 12345678}, "gpuburn_bmc_password is not text"),
    ],
)
def test_what_could_never_reach_it_is_refused_and_the_password_not_said(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        checked(**changed)
    assert "s3cret-word" not in str(refused.value) and "12345678" not in str(refused.value)


def test_the_account_may_come_from_the_environment() -> None:
    variables = {**GOOD, "gpuburn_bmc_user": "", "gpuburn_bmc_password": ""}
    site, _ = sites.read(variables, "host a")
    environment = {"GPUBURN_BMC_USER": "root", "GPUBURN_BMC_PASSWORD": "w"}
    access.check(site, "host a", environment)
    one = access.of(site, variables, environment)
    assert (one.user, one.password) == ("root", "w")


def test_a_host_without_bmc_is_asked_for_nothing() -> None:
    access.check(sites.Site(), "host a", {})
    assert access.verified(sites.Site()) is None
