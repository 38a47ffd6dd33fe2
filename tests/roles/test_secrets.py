"""What preflight passes on of a secret: that one is set, and not what it is."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from gpuburn.controller import site
from gpuburn.strict import Refused

ROLES = Path(__file__).parents[2] / "roles"


def filters(role: str) -> Any:
    spec = importlib.util.spec_from_file_location(role, ROLES / role / "filter_plugins" / f"{role}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_sides_hide_the_same_variables() -> None:
    assert filters("preflight").SECRETS == site.SECRETS
    assert filters("preflight").GIVEN == site.GIVEN


@pytest.mark.parametrize(
    ("value", "told"), [("s3cret", "(given)"), ("", ""), (None, ""), (12345, False), (["a"], False)]
)
def test_a_secret_is_passed_on_as_set_or_not(value: Any, told: Any) -> None:
    said = filters("preflight").said({"a": {"gpuburn_bmc_password": value, "gpuburn_level": "smoke"}}, ["a"])
    assert json.loads(said)["a"]["variables"] == {"gpuburn_bmc_password": told, "gpuburn_level": "smoke"}


def test_one_that_is_no_text_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="gpuburn_bmc_password is not text"):
        site.read({"gpuburn_bmc_password": False}, "host a")


def test_the_password_goes_only_to_the_call_that_asks_the_bmcs() -> None:
    hosts = {"a": {"gpuburn_bmc_address": "b", "gpuburn_bmc_password": "s3cret", "gpuburn_bmc_verify": False,
                   "gpuburn_level": "smoke"}, "c": {"gpuburn_bmc_password": "s3cret"}}  # fmt: skip
    wanted = {"gpuburn_bmc_address": "b", "gpuburn_bmc_password": "s3cret", "gpuburn_bmc_verify": False}
    assert json.loads(filters("bmc").said(hosts, hosts)) == {"a": {"variables": wanted}}
