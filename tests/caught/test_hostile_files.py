"""A host whose files are hostile is refused with file and reason, and the rest of the fleet is judged all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from caught import hostile
from caught.conftest import Fleet
from caught.hostile import OTHERS, TEXTS, THINGS, Bytes

ANY = {**TEXTS, **OTHERS}
each_text = pytest.mark.parametrize(("change", "says"), ANY.values(), ids=ANY)
some_texts = pytest.mark.parametrize(("change", "says"), [TEXTS["half of it"], TEXTS["NaN"], OTHERS["null"]])
each_thing = pytest.mark.parametrize("put", THINGS.values(), ids=THINGS)


def uncollected(fleet: Fleet) -> Path:
    """The host's sealed file; nothing tells of what it was, or amounted to."""
    fleet.run.journal.unlink()
    (fleet.run.host("bad") / "judged.json").unlink()
    return fleet.run.incoming("bad")


@each_text
def test_a_result_in_the_sealed_file(fleet: Fleet, change: Bytes, says: str) -> None:
    sealed = uncollected(fleet)
    whole = (fleet.run.host("bad") / "run" / "result.json").read_bytes()
    assert change(whole) != whole
    hostile.sealed(sealed, "result.json", change(whole))
    fleet.refused("result.json", says)


@some_texts
def test_a_result_that_replaces_one_that_was_collected(fleet: Fleet, change: Bytes, says: str) -> None:
    """The journal vouches for the first."""
    whole = (fleet.run.host("bad") / "run" / "result.json").read_bytes()
    hostile.sealed(fleet.run.incoming("bad"), "result.json", change(whole))
    fleet.refused("bad.tar.gz", "was changed since line")


@pytest.mark.parametrize(
    "member",
    [
        {"size": hostile.HUGE}, {"type": b"2", "linkname": "/etc/passwd"}, {"type": b"1", "linkname": "plan.json"},
        {"type": b"6"}, {"type": b"5"}, {"type": b"3"}, {"name": "../result.json"},
    ],
    ids=["2 GiB", "a link", "a hard link", "a pipe", "a folder", "a device", "a name outside"],
)  # fmt: skip
def test_a_sealed_file_whose_result_is_no_file(fleet: Fleet, member: dict[str, object]) -> None:
    hostile.archive(uncollected(fleet), **member)
    fleet.refused("bad.tar.gz", "not a plain file" if "type" in member or "name" in member else "more than")


@pytest.mark.parametrize("claimed", [hostile.HUGE, 2**20], ids=["it says so", "it does not say so"])
def test_a_sealed_file_that_unpacks_to_gigabytes(fleet: Fleet, claimed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuburn.controller.unseal.UNPACKED", 16 * 2**20)
    hostile.bomb(uncollected(fleet), claimed)
    fleet.refused("", "more than")
    assert not (fleet.run.host("bad") / ".run.tmp").exists()


@each_thing
def test_a_sealed_file_that_is_none(fleet: Fleet, put: object) -> None:
    put(uncollected(fleet))  # type: ignore[operator]
    fleet.refused("bad.tar.gz", "a sealed file is a regular one")


@each_thing
def test_a_sealed_file_that_is_none_any_more(fleet: Fleet, put: object) -> None:
    put(fleet.run.incoming("bad"))  # type: ignore[operator]
    fleet.refused("bad.tar.gz", "was lost since line")


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x1f\x8b" + bytes(100)], ids=["nothing", "garbage", "gzip's name"])
def test_a_sealed_file_that_is_garbage(fleet: Fleet, data: bytes) -> None:
    uncollected(fleet).write_bytes(data)
    fleet.refused("bad.tar.gz" if data else "", "not a sealed run" if data else "")


@each_text
def test_a_plan_on_the_controller(fleet: Fleet, change: Bytes, says: str) -> None:
    uncollected(fleet)
    plan = fleet.run.host("bad") / "plan.json"
    whole = plan.read_bytes()
    assert change(whole) != whole
    plan.write_bytes(change(whole))
    fleet.refused("plan.json", says)


@each_thing
def test_a_plan_on_the_controller_that_is_no_file(fleet: Fleet, put: object) -> None:
    uncollected(fleet)
    plan = fleet.run.host("bad") / "plan.json"
    put(plan)  # type: ignore[operator]
    fleet.refused("plan.json", "longer than" if put is hostile.sparse else "not a regular file")


@pytest.mark.parametrize("vouched", [True, False])
def test_a_plan_that_demands_less_than_the_one_that_was_sent(fleet: Fleet, vouched: bool) -> None:
    if not vouched:
        uncollected(fleet)
    plan = fleet.run.host("bad") / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"max": 0.0', b'"max": 9.0'))
    says = ("plan.json", "was changed since line") if vouched else ("result.json", "another plan than the one")
    fleet.refused(*says)


@some_texts
def test_evidence_in_the_sealed_file(fleet: Fleet, change: Bytes, says: str) -> None:
    """An outcome that lies: its digest is not the one that the result names."""
    name = "steps/gemm/outcome.json"
    whole = (fleet.run.host("bad") / "run" / name).read_bytes()
    hostile.sealed(uncollected(fleet), name, change(whole))
    fleet.refused(name, "evidence is missing, added or changed")
