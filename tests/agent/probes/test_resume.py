"""Kill and resume on three ranks: bit for bit the same, and every loss of state, of proof or of processes seen."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from gpuburn import plan, strict
from gpuburn.agent.host import Host
from gpuburn.agent.probes import resume
from gpuburn.agent.probes.resume import Ended, mismatches, remaining
from gpuburn.agent.processes import start_time
from gpuburn.agent.training.language import derive
from gpuburn.measurement import Fact, Reading, Work
from gpuburn.probe import discover
from tests.agent.training.forked_ranks import ForkedHost

PROBE = discover()["resume"]
DEVICES = [plan.Device(f"cpu{index}", "cpu") for index in range(3)]
EVERY, STEPS = 4, 20
SHORT = {**PROBE.smoke, "every": EVERY, "steps": STEPS}


def host(folder, seed=1, **faults):
    return ForkedHost("host", folder, DEVICES, seed, 1, faults=faults)


def numbers(taken):
    return {one.metric: one.value for one in taken if isinstance(one, Reading)}


def test_a_killed_run_ends_with_the_bits_of_one_left_in_peace(tmp_path):
    """Through torchrun, as on a machine."""
    taken = list(PROBE.run(Host("host", tmp_path, DEVICES, 1, 1), **PROBE.smoke))
    found = numbers(taken)
    assert found.keys() == PROBE.metrics.keys()
    assert (found["mismatches"], found["kills"], found["survivors"]) == (0, 1, 0)
    assert 0 <= found["steps_lost"] < PROBE.smoke["steps"] - PROBE.smoke["every"]
    assert found["detection"] > 0 and found["restart"] > 0
    facts = {one.name: one.value for one in taken if isinstance(one, Fact)}
    assert facts["reference"] == facts["resumed"] and facts.keys() == PROBE.facts.keys()
    assert sum((one for one in taken if isinstance(one, Work)), Work()).iterations > PROBE.smoke["steps"]
    assert not (tmp_path / "checkpoints").exists()


LOSSES = ["generator lost", "step lost", "step skipped", "moments lost", "last bit lost", "checkpoint ignored"]


@pytest.mark.parametrize("fault", LOSSES)
def test_a_resume_that_loses_any_state_is_seen(tmp_path, fault):
    found = numbers(PROBE.run(host(tmp_path, resumed=fault), **SHORT))
    assert found["mismatches"] > 0 and found["kills"] == 1


def test_without_a_fault_nothing_differs_for_another_seed(tmp_path):
    found = numbers(PROBE.run(host(tmp_path, seed=2), **SHORT))
    assert (found["mismatches"], found["kills"], found["survivors"]) == (0, 1, 0)


def test_a_kill_in_the_middle_of_a_save_resumes_from_the_one_before(tmp_path, monkeypatch):
    """The victim hangs between writing and renaming its second checkpoint; the kill comes then."""
    reached = resume.Run.reached

    def hanging(run, step):
        if not run.folder.name.startswith("victim"):
            return reached(run, step)
        assert reached(run, 2 * EVERY - 1)
        end = time.monotonic() + 60
        while not (tmp_path / "checkpoints" / "hangs").exists() and time.monotonic() < end:
            time.sleep(0.002)
        return True

    monkeypatch.setattr(resume.Run, "reached", hanging)
    seen = []
    newest = resume.Trial.newest
    monkeypatch.setattr(resume.Trial, "newest", lambda trial: seen.append(newest(trial)) or seen[-1])
    left = []
    killed = resume.Run.killed

    def listing(run, rank, step):
        struck = killed(run, rank, step)
        left.extend(sorted(path.name for path in (tmp_path / "checkpoints").iterdir()))
        return struck

    monkeypatch.setattr(resume.Run, "killed", listing)
    found = numbers(PROBE.run(host(tmp_path, **{"victim-0": "hang in save"}), **SHORT))
    assert left == [f".tmp-{2 * EVERY:08d}", "hangs", f"step-{EVERY:08d}"]
    assert seen == [EVERY]
    assert (found["mismatches"], found["kills"], found["steps_lost"]) == (0, 1, EVERY - 1)


def late(times, monkeypatch):
    """Let the first runs to be killed come to their end before the kill."""
    reached = resume.Run.reached

    def waiting(run, step):
        name, _, attempt = run.folder.name.partition("-")
        if name == "victim" and int(attempt) < times:
            run.ranks.wait(60)
        return reached(run, step)

    monkeypatch.setattr(resume.Run, "reached", waiting)


def test_a_kill_that_comes_too_late_is_repeated_earlier(tmp_path, monkeypatch):
    late(1, monkeypatch)
    found = numbers(PROBE.run(host(tmp_path), **SHORT))
    assert (found["mismatches"], found["kills"]) == (0, 1)
    assert (tmp_path / "victim-1").exists() and not (tmp_path / "victim-2").exists()


def test_kills_that_all_come_too_late_prove_nothing(tmp_path, monkeypatch):
    late(resume.ATTEMPTS, monkeypatch)
    found = numbers(PROBE.run(host(tmp_path), **SHORT))
    assert found["kills"] == 0 and found.keys() == {"kills", "others", "waited"}


def test_the_kill_follows_from_the_seed_and_comes_after_a_checkpoint(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(resume.Run, "killed", lambda run, rank, step: asked.append((rank, step)))
    monkeypatch.setattr(resume.Trial, "run", lambda trial, *_, **__: resume.Run(None, tmp_path, 3, 0.0, 0.0))
    for seed in range(50):
        trial = resume.Trial(host(tmp_path, seed), _recipe(seed), STEPS, EVERY, 60.0, tmp_path / "x")
        for attempt in range(resume.ATTEMPTS):
            trial.strike(attempt)
    assert all(EVERY < step < STEPS - 1 for _, step in asked)
    assert {rank for rank, _ in asked} == {0, 1, 2} and len({step for _, step in asked}) > 8
    assert derive("kill", 1, 0) == derive("kill", 1, 0) != derive("kill", 2, 0)


def _recipe(seed):
    from gpuburn.agent.training.loop import Recipe
    from tests.agent.training.alone import SHAPE

    return Recipe(SHAPE, 2, seed, 1e-3)


@pytest.mark.parametrize("run", ["reference", "victim-0", "resumed"])
def test_a_run_that_fails_by_itself_is_an_error_that_names_it(tmp_path, run):
    with pytest.raises(RuntimeError, match=rf"(?s){run}: .*the rank's own fault"):
        list(PROBE.run(host(tmp_path, **{run: "crash"}), **SHORT))
    assert not (tmp_path / "checkpoints").exists()


def test_a_run_that_hangs_is_ended_and_named(tmp_path):
    with pytest.raises(TimeoutError, match="reference: ranks not done"):
        list(PROBE.run(host(tmp_path, reference="hang"), **{**SHORT, "timeout": 0.1}))
    assert not any(start_time(int(path.read_text())) for path in (tmp_path / "reference").glob("pid.*"))


def test_a_disk_too_small_and_steps_too_few_are_refused(tmp_path, monkeypatch):
    with pytest.raises(strict.Refused, match="no step to be killed in"):
        list(PROBE.run(host(tmp_path), **{**SHORT, "every": STEPS}))
    monkeypatch.setattr(resume.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(OSError, match="checkpoints: 10 bytes free, "):
        list(PROBE.run(host(tmp_path), **SHORT))


def test_checkpoints_lie_where_they_shall_and_a_missing_place_is_refused(tmp_path):
    place = tmp_path / "array"
    with pytest.raises(NotADirectoryError, match="array: not there"):
        list(PROBE.run(host(tmp_path), **SHORT, directory=str(place)))
    place.mkdir()
    (place / "precious").write_text("x")
    steps = PROBE.run(host(tmp_path / "scratch"), **SHORT, directory=str(place))
    while not isinstance(taken := next(steps), Reading) or taken.metric != "steps_lost":
        pass
    [own] = place.glob("gpuburn-resume-*")
    assert list(own.glob("step-*"))
    steps.close()
    assert [path.name for path in place.iterdir()] == ["precious"]


PEACE = Ended({step: f"{step}" for step in range(1, 11)}, ["a", "b", "c"])


@pytest.mark.parametrize(
    "before, again, finals, count",
    [
        ({1: "1", 2: "2"}, range(6, 11), "abc", 0),
        ({1: "1", 2: "x"}, range(6, 11), "abc", 1),
        ({1: "1"}, range(7, 11), "abc", 1),
        ({1: "1"}, range(5, 11), "abc", 1),
        ({1: "1"}, range(1, 11), "abc", 5),
        ({1: "1"}, range(6, 12), "abc", 1),
        ({1: "1"}, range(6, 11), "abx", 1),
        ({1: "1"}, range(6, 11), "ab", 1),
        ({1: "1"}, [], "abc", 5),
    ],
)
def test_what_counts_as_a_mismatch(before, again, finals, count):
    assert mismatches(PEACE, before, Ended({step: f"{step}" for step in again}, list(finals)), saved=5) == count


def test_a_process_that_outlives_its_launcher_is_counted_and_ended():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    alive = [(child.pid, start_time(child.pid)), (child.pid, 1), (2**22 + 1, 1)]
    assert remaining(alive, 0.0) == 1
    assert child.wait(10) == -9
    assert remaining(alive, 0.0) == 0
