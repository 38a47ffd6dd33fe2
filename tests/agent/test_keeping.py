"""What stays of a long step: minutes that measure as the passes did, raw passes at both ends and around events."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn import evidence
from gpuburn.agent import keeping
from gpuburn.agent.guard import Watch
from gpuburn.agent.keeping import Keeper
from gpuburn.measurement import Metric, Reading, measure
from gpuburn.plan import Guard

METRICS = {
    "samples": Metric("count", "sum"), "heat": Metric("C", "max"), "power": Metric("W", "median"),
    "clock": Metric("MHz", "min"), "errors": Metric("count", "sum"), "energy": Metric("J", "delta"),
    "name": Metric("count", "last"),
}  # fmt: skip


def seen(second: int, errors: float = 0.0) -> list[Reading]:
    """One pass: heat peaks in second 100, the clock dips in second 200."""
    values = {
        "samples": 1.0, "heat": 99.0 if second == 100 else 50.0 + second % 7, "power": 700.0 + second % 11,
        "clock": 100.0 if second == 200 else 1980.0, "errors": errors, "energy": 700.0 * second, "name": float(second),
    }  # fmt: skip
    return [Reading(name, value, subject="gpu0", at=1000.0 + second) for name, value in values.items()]


def kept(folder: Path, seconds: int, event: int = -1, close: bool = True, **more: object) -> Path:
    """event: from this second on an error is counted."""
    folder.mkdir(exist_ok=True)
    keeper = Keeper(folder, METRICS)
    for second in range(seconds):
        keeper.add(list(seen(second, float(second == event))), 1000.0 + second)
    if close:
        keeper.close()
    return folder


def values(folder: Path) -> dict[str, float]:
    taken = [one for one in evidence.sampled(folder) if isinstance(one, Reading)]
    return {one.name: one.value for one in measure("t", METRICS, taken)}


def minutes_of(folder: Path, name: str) -> list[int]:
    """The minutes whose passes are in a file."""
    taken = evidence.read(folder, name)
    return sorted({int(one.at - 1000) // 60 for one in taken if isinstance(one, Reading)})


def test_a_short_step_keeps_every_pass_and_nothing_else(tmp_path: Path) -> None:
    folder = kept(tmp_path, 300)
    assert [path.name for path in folder.iterdir()] == [evidence.SAMPLER]
    assert len(evidence.sampled(folder)) == 300 * len(METRICS)


@pytest.mark.parametrize("seconds", [301, 361, 600, 3599])
def test_minutes_measure_as_the_passes_did(tmp_path: Path, seconds: int) -> None:
    found = values(kept(tmp_path, seconds))
    assert found == {
        "t.samples": seconds, "t.heat": 99.0, "t.clock": 100.0, "t.errors": 0.0, "t.energy": 700.0 * (seconds - 1),
        "t.name": seconds - 1.0, "t.power": pytest.approx(705.0, abs=0.6),
    }  # fmt: skip


def test_a_long_step_is_kept_in_few_lines_and_whole_at_both_ends(tmp_path: Path) -> None:
    folder = kept(tmp_path, 3600)
    assert minutes_of(folder, keeping.RAW) == [0] and minutes_of(folder, evidence.SAMPLER) == [58, 59]
    assert minutes_of(folder, evidence.MINUTES) == list(range(60))
    size = (folder / evidence.MINUTES).stat().st_size
    assert size < sum(len(evidence.dump(one)) for second in range(3600) for one in seen(second)) / 20


def test_passes_around_an_event_stay_as_they_are(tmp_path: Path) -> None:
    folder = kept(tmp_path, 3600, event=30 * 60 + 5)
    assert minutes_of(folder, keeping.RAW) == [0, 29, 30, 31]
    assert values(folder)["t.errors"] == 1.0


def test_a_sampler_that_was_held_up_is_an_event(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, METRICS)
    for second in range(0, 3600):
        if not 1200 < second < 1210:
            keeper.add(list(seen(second)), 1000.0 + second)
    keeper.close()
    assert minutes_of(tmp_path, keeping.RAW) == [0, 19, 20, 21]


def test_a_sampler_that_is_killed_leaves_everything_that_it_saw(tmp_path: Path) -> None:
    folder = kept(tmp_path, 1234, close=False)
    found = values(folder)
    assert (found["t.samples"], found["t.name"]) == (1234, 1233.0)
    assert minutes_of(folder, evidence.SAMPLER) == [18, 19, 20]


def test_between_minutes_and_passes_nothing_counts_twice(tmp_path: Path) -> None:
    """Killed after a minute was written and before its passes were let go."""
    folder = kept(tmp_path, 1234, close=False)
    whole = (folder / evidence.SAMPLER).read_bytes()
    before = b"".join(evidence.dump(one) for second in range(1000, 1080) for one in seen(second))
    (folder / evidence.SAMPLER).write_bytes(before + whole)
    assert values(folder)["t.samples"] == 1234


def test_a_guard_sees_every_pass_although_older_ones_are_let_go(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, {**METRICS, "temperature": Metric("C", "max")})
    watch = Watch([Guard("temperature", "C", "hot", max=87.0)], tmp_path, tmp_path / evidence.SAMPLER)
    trips = []
    for second in range(900):
        heat = Reading(
            "temperature", 90.0 if second in (299, 361, 600, 899) else 60.0, subject="gpu0", at=1000.0 + second
        )
        keeper.add([*seen(second), heat], 1000.0 + second)
        trips += [second for _ in watch.trips()]
    assert {299, 361, 600, 899} <= set(trips)
    keeper.close()


def test_a_sampler_that_was_blind_for_hours_goes_on(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, METRICS)
    for second in (0, 1, 20_000, 20_001, 40_000):
        keeper.add(list(seen(second)), 1000.0 + second)
    keeper.close()
    assert values(tmp_path)["t.samples"] == 5
