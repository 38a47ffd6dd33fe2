"""Foreign load from made /proc trees: who is ours, how long it lasts, and what a person is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuburn.agent import foreign
from gpuburn.agent.foreign import ForeignLoad
from gpuburn.agent.guard import Watch
from gpuburn.plan import Guard

FEW = Guard("foreign_load", "1", "others disturb", max=0.1)
CPUS, SECONDS = 10, 10
ALL = CPUS * SECONDS * foreign.TICKS  # ticks of all CPUs between two samples
US, CHILD, THEIRS, KERNEL = 100, 101, 700, 2


class Machine:
    """A /proc of ten CPUs that is moved on by hand."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root / "proc", 1000.0
        self.all = self.user = 0
        self.used = {US: 0, CHILD: 0, THEIRS: 0, KERNEL: 0}
        self.waited = dict.fromkeys(self.used, 0)
        self.write()

    def write(self) -> None:
        parents = {US: 1, CHILD: US, THEIRS: 1, KERNEL: 0}
        self.root.mkdir(exist_ok=True)
        idle = self.all - self.user
        (self.root / "stat").write_text(f"cpu  {self.user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 1 1\n")
        for pid, ticks in self.used.items():
            (self.root / str(pid)).mkdir(exist_ok=True)
            rest = [0] * 40
            rest[10], rest[12] = ticks, self.waited[pid]  # utime, cutime, after state and parent
            words = " ".join(map(str, rest[1:]))
            (self.root / str(pid) / "stat").write_text(f"{pid} (a) b) S {parents[pid]} {words}\n")
            (self.root / str(pid) / "comm").write_text("make\x1b\n" if pid == THEIRS else "python3\n")

    def passes(self, **shares: float) -> None:
        """Ten seconds, in which each uses such a share of all CPUs."""
        self.now += SECONDS
        self.all += ALL
        for name, share in shares.items():
            pid = {"us": US, "child": CHILD, "theirs": THEIRS}[name]
            self.used[pid] += round(share * ALL)
            self.user += round(share * ALL)
        self.write()

    def load(self, group: Path | None = None) -> ForeignLoad:
        return ForeignLoad(group, self.root, US, lambda: self.now)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def told(machine: Machine, load: ForeignLoad, *shares: dict[str, float]) -> list[float | None]:
    found = []
    for one in shares:
        machine.passes(**one)
        share = load.sustained()
        found.append(share if share is None else round(share, 4))
    return found


def test_the_share_is_what_others_used_and_told_once_it_lasted(machine):
    load = machine.load()
    busy = {"us": 0.1, "child": 0.3, "theirs": 0.25}
    assert told(machine, load, busy, busy, busy, busy) == [None, None, 0.25, 0.25]


def test_our_own_load_is_none_of_it_however_high(machine):
    ours = {"us": 0.2, "child": 0.8}
    assert told(machine, machine.load(), ours, ours, ours) == [None, None, 0.0]


def test_a_burst_is_no_sustained_load(machine):
    burst, calm = {"theirs": 0.9}, {"theirs": 0.02}
    assert told(machine, machine.load(), burst, calm, burst, burst, burst) == [None, None, 0.02, 0.02, 0.9]


def test_a_child_that_ended_stays_ours(machine):
    load = machine.load()
    ours = {"us": 0.1, "child": 0.5}
    told(machine, load, ours, ours)
    machine.passes(child=0.5)
    machine.waited[US] = machine.used.pop(CHILD)  # ended, and waited for
    for name in ("stat", "comm"):
        (machine.root / str(CHILD) / name).unlink()
    machine.write()
    assert load.sustained() == pytest.approx(0.0, abs=1e-3)


def test_between_two_samples_nothing_is_read(machine):
    load = machine.load()
    for path in machine.root.rglob("stat"):
        path.unlink()
    assert load.sustained() is None


def test_a_control_group_counts_what_ran_in_it_also_what_is_gone(machine, tmp_path):
    group = tmp_path / "group"
    group.mkdir()
    usage = group / "cpu.stat"
    usage.write_text("usage_usec 9\nuser_usec 0\nsystem_usec 9\n")
    load = machine.load(group)
    for number in (1, 2, 3):
        machine.passes(theirs=0.7)
        usage.write_text(f"usage_usec 9\nuser_usec {number * 50_000_000}\nsystem_usec 9\n")
        share = load.sustained()
    assert share == pytest.approx(0.2), "50 of 100 CPU seconds were ours, though no process in the tree has them"


def test_without_proc_nothing_is_claimed(machine):
    load = machine.load()
    machine.passes(theirs=0.9)
    (machine.root / "stat").write_text("intr 5\n")
    assert load.sustained() is None


def test_the_real_proc_is_read():
    one = ForeignLoad(clock=iter([0.0, foreign.PERIOD, foreign.PERIOD]).__next__)
    sample = one._sample()
    assert sample is not None and sample.all > sample.user > 0 and sample.ours > 0
    assert os.getpid() not in one._others() and 1 in one._others()


def test_the_guard_trips_and_says_who(machine, tmp_path):
    watch = Watch([FEW], tmp_path, tmp_path / "telemetry.jsonl", machine.load())
    trips = []
    for _ in range(3):
        machine.passes(us=0.5, theirs=0.3)
        trips.append(watch.trips())
    assert trips[:2] == [[], []]
    [trip] = trips[2]
    assert (trip.guard, trip.subject, trip.value) == ("foreign_load", "host", pytest.approx(0.3))
    assert (
        trip.why == "foreign_load of host was 0.3 1; wanted is at most 0.1: others disturb; busiest: make? (700) 60 s"
    )


def test_within_the_guard_nothing_trips(machine, tmp_path):
    watch = Watch([FEW], tmp_path, tmp_path / "telemetry.jsonl", machine.load())
    for _ in range(4):
        machine.passes(us=0.9, theirs=0.09)
        assert watch.trips() == []


def test_nobody_looks_where_no_guard_asks(machine, tmp_path):
    watch = Watch([], tmp_path, tmp_path / "telemetry.jsonl", machine.load())
    for _ in range(4):
        machine.passes(theirs=0.9)
        assert watch.trips() == []
