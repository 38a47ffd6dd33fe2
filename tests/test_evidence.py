"""Evidence files: written line by line, read strictly, and the same numbers for whoever reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpuburn import evidence
from gpuburn.evidence import SAMPLER, WORKERS, amounts, declared, dump, parse, read
from gpuburn.measurement import NOWHERE, Fact, Point, Reading, Work
from gpuburn.probe import Taken, discover
from gpuburn.strict import Refused
from gpuburn.telemetry import TELEMETRY

GEMM = discover()["gemm"]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
POINTS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 9) | st.sampled_from(["x", 1.5])).map(
    lambda d: Point.of(**d)
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TAKEN = (
    st.builds(Reading, TEXT, FINITE, POINTS, TEXT, FINITE, TEXT)
    | st.builds(Fact, TEXT, TEXT, POINTS, TEXT)
    | st.builds(Work, st.integers(0, 2**53), st.integers(0, 2**53), FINITE, TEXT)
)


@given(st.lists(TAKEN, max_size=6))
def test_what_a_worker_writes_reads_back_the_same(taken: list[Taken]) -> None:
    data = b"".join(dump(one) for one in taken)
    assert data.count(b"\n") == len(taken)
    assert parse(data, "a") == taken


def test_a_line_that_a_crash_cut_short_is_left_out() -> None:
    one, two = Reading("tflops", 1.0), Reading("tflops", 2.0)
    for cut in range(1, len(dump(two))):
        assert parse(dump(one) + dump(two)[:-cut], "a") == [one]
    assert parse(b"", "a") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{}", "wanted is one of reading, fact, work"),
        (b"[]", "wanted is one of"),
        (b'{"reading": {}, "fact": {}}', "wanted is one of"),
        (b'{"readnig": {}}', "did you mean 'reading'"),
        (b'{"reading": {"metric": "a"}}', "'value' is missing"),
        (b'{"reading": {"metric": "a", "value": NaN}}', "not strict JSON"),
        (b'{"reading": {"metric": "a", "value": 1e999}}', "not a finite number"),
        (b'{"reading": {"metric": "a", "value": 1, "value": 2}}', "written twice"),
        (b'{"reading": {"metric": "a", "value": "1"}}', "wanted is a float"),
        (b'{"reading": {"metric": "a", "value": 1, "unit": "s"}}', "unknown 'unit'"),
        (b'{"fact": {"name": "a", "value": 1}}', "wanted is a str"),
        (b'{"work": {"iterations": 1.5}}', "wanted is a int"),
        (b" ", "not strict JSON"),
        (b"garbage", "not strict JSON"),
        (b"\x00\x00\x00", "not strict JSON"),
    ],
)
def test_a_line_that_is_not_evidence_is_refused_with_its_number(text: bytes, says: str) -> None:
    with pytest.raises(Refused, match=rf"^a:2.*{says}"):
        parse(dump(Work(1)) + text + b"\n", "a")


def test_a_file_of_evidence_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "readings.gpu0.jsonl").write_bytes(dump(Work(1)) * 10)
    monkeypatch.setattr(evidence, "LINES", 100)
    with pytest.raises(Refused, match="longer than 100 bytes"):
        read(tmp_path, WORKERS)


def test_a_link_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(dump(Work(1)))
    (tmp_path / "readings.gpu0.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="not a regular file"):
        read(tmp_path, WORKERS)


def test_workers_and_sampler_are_read_apart(tmp_path: Path) -> None:
    (tmp_path / "readings.gpu1.jsonl").write_bytes(dump(Work(2)))
    (tmp_path / "readings.gpu0.jsonl").write_bytes(dump(Work(1)))
    (tmp_path / "telemetry.jsonl").write_bytes(dump(Reading("samples", 1.0)))
    (tmp_path / "other.jsonl").write_bytes(b"garbage")
    assert read(tmp_path, WORKERS) == [Work(1), Work(2)]
    assert read(tmp_path, SAMPLER) == [Reading("samples", 1.0)]


@pytest.mark.parametrize(
    ("taken", "says"),
    [
        (Reading("tflops", 1.0, subject="gpu9"), "about 'gpu9', which the plan does not have"),
        (Work(1), "about ''"),
        (Reading("tflop", 1.0, subject="gpu0"), "evidence of 'tflop', which no probe of this step declares"),
        (Fact("sum", "a", subject="gpu0"), "evidence of 'sum'"),
        (Reading("samples", 1.0, subject="host"), "evidence of 'samples'"),
    ],
)
def test_evidence_about_what_was_not_planned_is_refused(taken: Taken, says: str) -> None:
    with pytest.raises(Refused, match=says):
        declared([taken], [GEMM], ["gpu0"])


def test_work_is_summed_per_subject() -> None:
    _, _, work = amounts([Work(1, subject="a"), Work(2, 5, subject="b"), Work(3, subject="a")], [GEMM])
    assert work == {"a": Work(4, subject="a"), "b": Work(2, 5, subject="b")}


def test_contradicting_facts_are_all_kept_and_repeated_ones_once() -> None:
    said = [Fact("checksum", value, subject="gpu0") for value in ("b", "a", "b")]
    _, facts, _ = amounts(said, [GEMM])
    assert facts == [Fact("gemm.checksum", "a", NOWHERE, "gpu0"), Fact("gemm.checksum", "b", NOWHERE, "gpu0")]


def test_a_name_that_two_declarations_share_is_measured_by_the_one_that_took_it() -> None:
    """serve.gap and telemetry.gap once answered for each other."""
    shared = [one for one in discover().values() if set(one.metrics) & set(TELEMETRY.metrics)]
    for one in shared:
        name = next(iter(set(one.metrics) & set(TELEMETRY.metrics)))
        found, _, _ = amounts([Reading(name, 1.0, subject="gpu0")], [one])
        assert [m.name for m in found] == [f"{one.name}.{name}"]


def test_the_order_of_files_and_subjects_does_not_change_the_amounts() -> None:
    taken = [Reading("wrong", float(i), subject=f"gpu{i % 3}", at=float(i)) for i in range(9)]
    assert amounts(taken, [GEMM]) == amounts(taken[::-1], [GEMM])
