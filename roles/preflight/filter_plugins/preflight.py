"""What is said of every host, as gpuburn reads it: variables, those that cannot be resolved, its look as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

SITE = "gpuburn_"
CONNECTION = "ansible_"  # resolved, so that an undefined address is named here; never passed on
SECRETS = ("gpuburn_bmc_password",)  # only whether one is set is passed on; roles/bmc passes on what it is
GIVEN = "(given)"
LONGEST = 65536  # characters of a look; one more is passed on, and refused for its length


def said(hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> str:
    """{host: {"variables": {name: value}, "wrong": {name: why it cannot be resolved}}} as JSON."""
    return json.dumps({str(host): _host(hostvars[host]) for host in hosts})


def _host(mine: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    variables: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name in sorted(one for one in mine if str(one).startswith((SITE, CONNECTION))):
        try:
            value = _plain(mine[name])
        except Exception as error:  # noqa: BLE001  (whatever a template raises: named with its variable)
            wrong[str(name)] = _words(error)
        else:
            if name.startswith(SITE):
                variables[str(name)] = _hidden(value) if name in SECRETS else value
    return {"variables": variables, "wrong": wrong}


def _hidden(value: Any) -> Any:
    """Text and none stay what they are, told apart; anything else is refused, as a value that is no text."""
    return (GIVEN if value else "") if isinstance(value, str | None) else False


def _plain(value: Any) -> Any:
    """The value as JSON has it, every template in it resolved."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def _words(error: BaseException) -> str:
    """One line, without Ansible's own wrapping."""
    return " ".join(str(error).split()).removeprefix("A captured exception marker was tripped: ")[:300]


def seen(inventory: str, hostvars: Mapping[str, Mapping[str, Any]]) -> str:
    """What was said of every host before, with what its look printed, as text that nobody has parsed; null: no look."""
    document = json.loads(inventory)
    for host, one in document.items():
        one["look"] = _look(hostvars[host])
    return json.dumps(document)


def _look(mine: Mapping[str, Any]) -> str | None:
    look = mine.get("__preflight_look", {})
    return str(look.get("stdout", ""))[: LONGEST + 1] if look.get("rc", 1) == 0 else None


class FilterModule:
    """Named after the role, as its variables are."""

    def filters(self) -> dict[str, Any]:
        return {"preflight_said": said, "preflight_seen": seen}
