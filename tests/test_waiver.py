"""Waivers: what is refused by name, when one holds, and that it waives nothing but what it names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpuburn import waiver
from gpuburn.finding import Verdict, codes, finding
from gpuburn.strict import Refused
from gpuburn.waiver import Waiver

ENTRY: dict[str, Any] = {
    "id": "W-1", "person": "A. Person", "about": "gemm.tflops", "serials": ["S1", "S2"], "reason": "agreed in mail 7",
    "date": "2026-01-01", "expires": "2026-06-30",
}  # fmt: skip
ONE = Waiver(**{**ENTRY, "serials": tuple(ENTRY["serials"])})
ROW = (
    "- {{id: {id}, person: {person}, about: {about}, serials: {serials}, reason: {reason}, date: {date}, "
    "expires: {expires}}}\n"
)


def written(tmp_path: Path, **changed: Any) -> Path:
    path = tmp_path / "waivers.yml"
    path.write_text(ROW.format(**{**ENTRY, **changed}))
    return path


@pytest.mark.parametrize("date", ["2026-01-01", "'2026-01-01'"])
def test_a_waiver_is_read_with_or_without_quotes_around_its_days(tmp_path: Path, date: str) -> None:
    assert waiver.load(written(tmp_path, date=date)) == [ONE]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"reason": "''"}, r"'reason' is empty; wanted is why"),
        ({"reason": "' '"}, r"'reason' is empty"),
        ({"person": "''"}, r"'person' is empty; wanted is who"),
        ({"id": "''"}, r"'id' is empty"),
        ({"serials": "[]"}, r"'serials' is \[\]; wanted are the serials"),
        ({"serials": "['']"}, r"'serials' is \[''\]"),
        ({"serials": "[To be filled by O.E.M.]"}, r"'serials' is"),
        ({"serials": "[S1, S1]"}, "names one part twice"),
        ({"serials": "[1234]"}, r"serials\[0\]: 1234 is a int, wanted is a str"),
        ({"serials": "S1"}, "wanted is a list"),
        ({"expires": "2026-01-01"}, "wanted is a day after its date"),
        ({"expires": "2025-12-31"}, "wanted is a day after its date"),
        ({"expires": "never"}, "'expires' is 'never'; wanted is a day such as"),
        ({"date": "2026-13-01"}, r"(month must be|wanted is a day)"),
        ({"date": "'2026-02-30'"}, "wanted is a day such as"),
        ({"date": "'20260101'"}, "wanted is a day such as"),
        ({"date": "2026-01-01 10:00:00"}, "is a datetime, wanted is a str"),
        ({"about": "gemm.tflop"}, "about: unknown 'gemm.tflop'; did you mean 'gemm.tflops'"),
        ({"about": "tflops"}, "about: unknown 'tflops'"),
        ({"about": "gemm.tflops, cod: x"}, "unknown 'cod'; did you mean 'code'"),
        ({"about": "gemm.tflops, code: limit.fail"}, "code: unknown 'limit.fail'; did you mean 'limit.failed'"),
        ({"about": "gemm.tflops, about: gemm.wrong"}, "written twice"),
    ],
)
def test_what_is_no_waiver_is_refused_on_one_line(tmp_path: Path, changed: dict[str, str], says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        waiver.load(written(tmp_path, **changed))
    assert "waivers.yml" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("key", ["id", "person", "about", "serials", "reason", "date", "expires"])
def test_every_key_must_be_there(tmp_path: Path, key: str) -> None:
    path = tmp_path / "waivers.yml"
    path.write_text(waiver.dump([ONE]).replace(f"{key}:", "code:", 1))
    with pytest.raises(Refused):
        waiver.load(path)


@pytest.mark.parametrize("text", ["", "a: 1\n", "- 5\n", "- [a]\n", "[\n", "waivers: []\n"])
def test_a_file_that_is_no_list_of_waivers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "waivers.yml").write_text(text)
    with pytest.raises(Refused, match=r"waivers\.yml"):
        waiver.load(tmp_path / "waivers.yml")
    with pytest.raises(Refused, match="cannot be read"):
        waiver.load(tmp_path / "nothing.yml")


def test_an_id_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "waivers.yml").write_text(ROW.format(**ENTRY) + ROW.format(**{**ENTRY, "about": "gemm.wrong"}))
    with pytest.raises(Refused, match=r"waivers\.yml\[1\] \(W-1\): the id is there twice"):
        waiver.load(tmp_path / "waivers.yml")


@pytest.mark.parametrize(
    ("day", "why"),
    [
        ("2025-12-31", "not valid before 2026-01-01"), ("2026-01-01", ""), ("2026-06-30", ""),
        ("2026-07-01", "expired on 2026-06-30"),
    ],
)  # fmt: skip
def test_a_waiver_holds_from_its_date_to_its_last_day(day: str, why: str) -> None:
    assert waiver.unusable(ONE, day).startswith(why)
    assert waiver.usable(ONE, day) is not bool(why)


def found(code: str = "limit.failed", about: str = "gemm.tflops", verdict: Verdict = Verdict.FAIL) -> Any:
    return finding(code, about, verdict, "too slow", "limit", ("training",), step="gemm", subject="gpu0")


@pytest.mark.parametrize(
    ("one", "serials", "why"),
    [
        (found(), {"S1"}, ""),
        (found(), {"S1", "uuid"}, ""),
        (found(), {"S3"}, "serial is not among"),
        (found(), set(), "serial is not among"),
        (found(about="gemm.wrong"), {"S1"}, "is about gemm.wrong"),
        (found("limit.unmeasured", verdict=Verdict.INCOMPLETE), {"S1"}, "is incomplete; only what failed"),
        (found("limit.met", verdict=Verdict.PASS), {"S1"}, "is pass; only what failed"),
        (found("identity.changed"), {"S1"}, "cannot be waived: it puts the serial itself in doubt"),
        (found("fleet.duplicate"), {"S1"}, "cannot be waived"),
    ],
)
def test_only_what_failed_about_that_quantity_on_a_listed_serial_is_waived(
    one: Any, serials: set[str], why: str
) -> None:
    told = waiver.mismatch(ONE, one, serials)
    assert (why in told) if why else told == ""


def test_a_code_narrows_a_waiver() -> None:
    narrow = dataclasses.replace(ONE, code="fleet.peer")
    assert waiver.mismatch(narrow, found(), {"S1"}) == "its code is limit.failed, waived is fleet.peer"
    assert waiver.mismatch(narrow, found("fleet.peer"), {"S1"}) == ""


@given(st.sampled_from(sorted(codes())), st.sampled_from(list(Verdict)))
def test_whatever_did_not_fail_is_never_waived(code: str, verdict: Verdict) -> None:
    if waiver.mismatch(ONE, found(code, verdict=verdict), {"S1"}) == "":
        assert verdict is Verdict.FAIL and code not in waiver.IN_DOUBT


WORDS = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=30).filter(
    lambda text: text.strip() and not waiver.identity.is_junk(text)
)
WAIVERS = st.lists(
    st.builds(
        Waiver, id=WORDS, person=WORDS, about=st.sampled_from(sorted(waiver.abouts())), reason=WORDS,
        serials=st.lists(WORDS, min_size=1, max_size=3, unique=True).map(tuple), date=st.just("2026-01-01"),
        expires=st.just("2026-12-31"), code=st.sampled_from(["", "limit.failed"]),
    ),
    unique_by=lambda one: one.id, max_size=4,
)  # fmt: skip


@given(WAIVERS)
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, waivers: list[Waiver]) -> None:
    path = tmp_path_factory.mktemp("waivers") / "waivers.yml"
    path.write_text(waiver.dump(waivers), encoding="utf-8")
    assert waiver.load(path) == waivers


@given(WAIVERS, st.randoms())
def test_the_order_of_the_file_is_not_in_its_digest(waivers: list[Waiver], random: Any) -> None:
    mixed = sorted(waivers, key=lambda _: random.random())
    assert waiver.digest(mixed) == waiver.digest(waivers)
    if waivers:
        assert waiver.digest(waivers[1:]) != waiver.digest(waivers)
