"""Five strikes and resumes on three ranks: bit for bit the same, and every loss of state, proof or processes seen."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys

import pytest

from gpuburn import plan, strict
from gpuburn.agent import place
from gpuburn.agent.host import Host
from gpuburn.agent.processes import start_time, stopped
from gpuburn.agent.training import shard, strike, trial
from gpuburn.agent.training.language import derive
from gpuburn.agent.training.launched import Run, Told, differences
from gpuburn.agent.training.loop import Recipe
from gpuburn.agent.training.strike import remaining, tear
from gpuburn.measurement import Fact, Reading, Work
from gpuburn.probe import discover
from tests.agent.training.alone import SHAPE
from tests.agent.training.forked_ranks import ForkedHost

PROBE = discover()["resume"]
DEVICES = [plan.Device(f"cpu{index}", "cpu") for index in range(3)]
VARIANTS = ["kill", "hang", "launcher", "async", "torn"]
EVERY, STEPS = 3, 18
SHORT = {**PROBE.smoke, "every": EVERY, "steps": STEPS, "patience": 1.0}


def short(*variants):
    """The smallest run that leaves room for these strikes."""
    return {**SHORT, "variants": list(variants), "steps": 2 + len(variants) * (2 * EVERY + 3)}


def host(folder, seed=1, **faults):
    return ForkedHost("host", folder, DEVICES, seed, 1, faults={k.replace("_", "-"): v for k, v in faults.items()})


def numbers(taken):
    """metric, variant -> value; what is told of the place of the checkpoints (test_place.py) is of no variant."""
    readings = [one for one in taken if isinstance(one, Reading) and one.metric not in place.TELLS]
    found = {(one.metric, one.point.as_data()["variant"]): one.value for one in readings}
    assert len(found) == len(readings)
    return found


def of(found, metric):
    return {variant: value for (name, variant), value in found.items() if name == metric}


def test_every_struck_run_ends_with_the_bits_of_one_left_in_peace(tmp_path):
    """Through torchrun, as on a machine; the stacks of the ranks that hung lie in the step's log."""
    (tmp_path / "log").mkdir()
    where = Host("host", tmp_path / "scratch", DEVICES, 1, 1, log=tmp_path / "log")
    taken = list(PROBE.run(where, **{**PROBE.smoke, "variants": VARIANTS, "every": 4, "steps": 60}))
    found = numbers(taken)
    assert found.keys() == {
        (metric, variant) for metric, one in PROBE.metrics.items() if one.at for variant in VARIANTS
    }
    assert of(found, "mismatches") == of(found, "survivors") == dict.fromkeys(VARIANTS, 0)
    assert of(found, "strikes") == dict.fromkeys(VARIANTS, 1)
    assert all(value > 0 for metric in ("detection", "teardown", "restart") for value in of(found, metric).values())
    lost = of(found, "steps_lost")
    assert all(0 <= value < 60 for value in lost.values()) and lost["torn"] >= 4
    assert found["detection", "hang"] >= PROBE.smoke["patience"] > found["teardown", "hang"]
    facts = {one.name: one.value for one in taken if isinstance(one, Fact)}
    assert facts["reference"] == facts["resumed"] and facts.keys() == PROBE.facts.keys()
    assert sum((one for one in taken if isinstance(one, Work)), Work()).iterations > 2 * 60
    assert not (tmp_path / "scratch" / "checkpoints").exists()
    hung = derive("victim", 1, VARIANTS.index("hang"), 0) % 3
    assert "child.py" in (tmp_path / "log" / f"stacks.hang.{hung}.txt").read_text()
    assert {path.name.split(".")[2] for path in (tmp_path / "log").iterdir()} == {"0", "1", "2"}


def test_without_a_fault_nothing_differs_for_another_seed(tmp_path):
    found = numbers(PROBE.run(host(tmp_path, seed=2, async_0="slow save"), **short(*VARIANTS)))
    assert of(found, "mismatches") == of(found, "survivors") == dict.fromkeys(VARIANTS, 0)
    assert of(found, "strikes") == dict.fromkeys(VARIANTS, 1)


def test_it_runs_on_the_devices_that_are_left(tmp_path):
    where = ForkedHost("host", tmp_path, DEVICES, 1, 1, lost=["cpu0"])
    found = numbers(PROBE.run(where, **short("kill")))
    assert (found["mismatches", "kill"], found["strikes", "kill"]) == (0, 1)
    assert {path.name for path in (tmp_path / "kill-0").glob("pid.*")} == {"pid.0", "pid.1"}
    task = strict.loads((tmp_path / "kill-0" / "task.json").read_bytes(), "task")
    assert [one["name"] for one in task["devices"]] == ["cpu1", "cpu2"]


LOSSES = ["generator lost", "step lost", "step skipped", "moments lost", "last bit lost", "checkpoint ignored"]


@pytest.mark.parametrize(
    "variant, fault", [*(("kill", fault) for fault in LOSSES), *zip(["hang", "launcher", "async", "torn"], LOSSES)]
)
def test_a_resume_that_loses_any_state_is_seen(tmp_path, variant, fault):
    faults = {"resumed": fault, "async_0": "slow save"}
    found = numbers(PROBE.run(host(tmp_path, **faults), **short(variant)))
    assert found["mismatches", variant] > 0 and found["strikes", variant] == 1


@pytest.mark.parametrize("fault", ["last bit lost", "step skipped"])
def test_the_resume_that_is_at_fault_is_named_and_not_the_one_before(tmp_path, fault):
    found = numbers(PROBE.run(host(tmp_path, resumed=fault), **short("kill", "launcher")))
    assert found["mismatches", "kill"] == 0 < found["mismatches", "launcher"]
    found = numbers(PROBE.run(host(tmp_path / "again", launcher_0=fault), **short("kill", "launcher")))
    assert found["mismatches", "kill"] > 0


def test_a_resume_from_a_torn_checkpoint_is_seen(tmp_path):
    found = numbers(PROBE.run(host(tmp_path, resumed="torn one taken"), **short("torn")))
    assert found["mismatches", "torn"] >= EVERY and found["strikes", "torn"] == 1


def test_a_torn_checkpoint_is_passed_over_for_the_one_before(tmp_path):
    found = numbers(PROBE.run(host(tmp_path), **short("torn")))
    assert found["mismatches", "torn"] == 0 and found["steps_lost", "torn"] >= EVERY


def test_a_save_beside_the_loop_that_is_struck_is_unfinished_and_the_one_before_is_taken(tmp_path, monkeypatch):
    left = []
    taken = trial.Trial.left

    def listing(one, variant, rank):
        left.append(sorted(path.name for path in one.checkpoints.iterdir()))
        left.append(taken(one, variant, rank))
        return left[-1]

    monkeypatch.setattr(trial.Trial, "left", listing)
    found = numbers(PROBE.run(host(tmp_path, async_0="slow save"), **short("async")))
    names, saved = left
    [unfinished] = [name for name in names if name.startswith(".tmp-")]
    assert names[-1] == shard.name(saved) and unfinished == shard.unfinished(saved + EVERY)
    assert (found["mismatches", "async"], found["strikes", "async"]) == (0, 1)
    assert found["steps_lost", "async"] >= EVERY


def test_a_save_that_does_not_copy_what_it_saves_is_seen(tmp_path):
    found = numbers(PROBE.run(host(tmp_path, async_0="later state saved"), **short("async")))
    assert found["mismatches", "async"] > 0


def test_a_save_beside_the_loop_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)async-0: .*no space left, said the test"):
        list(PROBE.run(host(tmp_path, async_0="failing save"), **short("async")))


def test_ranks_that_outlive_their_launcher_are_counted_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(strike, "GONE", 0.0)
    steps = PROBE.run(host(tmp_path, launcher_0="outlives its launcher"), **short("launcher"))
    found = {}
    while ("survivors", "launcher") not in found:
        found |= numbers([next(steps)])
    assert found["survivors", "launcher"] == 3
    steps.close()


OUTLIVING = {f"launcher_{attempt}": "outlives its launcher" for attempt in range(3)}


def test_ranks_that_train_on_to_the_end_without_their_launcher_were_not_struck(tmp_path):
    found = numbers(PROBE.run(host(tmp_path, **OUTLIVING), **short("launcher")))
    assert found == {("strikes", "launcher"): 0}


def test_a_hang_that_nobody_notices_is_an_error_that_names_it(tmp_path):
    with pytest.raises(TimeoutError, match="hang-0: nobody noticed that it was struck in time"):
        list(PROBE.run(host(tmp_path), **{**short("hang"), "patience": 60.0, "timeout": 4.0}))
    assert not any(start_time(int(path.read_text())) for path in (tmp_path / "hang-0").glob("pid.*"))


def test_a_rank_alone_that_hangs_is_noticed_by_its_silence(tmp_path):
    one = ForkedHost("host", tmp_path, DEVICES[:1], 1, 1)
    found = numbers(PROBE.run(one, **{**short("kill", "hang"), "patience": 0.5}))
    assert of(found, "mismatches") == of(found, "survivors") == {"kill": 0, "hang": 0}
    assert found["detection", "hang"] >= 0.5


def test_a_kill_in_the_middle_of_a_save_resumes_from_the_one_before(tmp_path, monkeypatch):
    """The run hangs between writing and renaming its second checkpoint; the kill comes then."""
    reached = Run.reached

    def hanging(run, step):
        if run.folder.name != "kill-0":
            return reached(run, step)
        assert reached(run, 2 * EVERY - 1)
        while not (tmp_path / "checkpoints" / "hangs").exists():
            run.pause("no hang in a save")
        return True

    monkeypatch.setattr(Run, "reached", hanging)
    seen = []
    left = trial.Trial.left
    monkeypatch.setattr(trial.Trial, "left", lambda *given: seen.append(left(*given)) or seen[-1])
    found = numbers(PROBE.run(host(tmp_path, kill_0="hang in save"), **short("kill")))
    assert seen == [EVERY]
    assert (found["mismatches", "kill"], found["steps_lost", "kill"]) == (0, EVERY - 1)


def late(times, monkeypatch):
    """Let the first runs to be struck come to their end before."""
    reached = Run.reached

    def waiting(run, step):
        variant, _, attempt = run.folder.name.partition("-")
        if attempt and variant == "launcher" and int(attempt) < times:
            run.ranks.wait(60)
        return reached(run, step)

    monkeypatch.setattr(Run, "reached", waiting)


def test_a_strike_that_comes_too_late_is_repeated_from_the_first_step(tmp_path, monkeypatch):
    late(1, monkeypatch)
    found = numbers(PROBE.run(host(tmp_path), **short("kill", "launcher")))
    assert of(found, "mismatches") == {"kill": 0, "launcher": 0} and found["strikes", "launcher"] == 1
    assert (tmp_path / "launcher-1").exists() and not (tmp_path / "launcher-2").exists()


def test_strikes_that_all_come_too_late_prove_nothing(tmp_path, monkeypatch):
    late(trial.ATTEMPTS, monkeypatch)
    found = numbers(PROBE.run(host(tmp_path), **short("kill", "launcher")))
    assert found["mismatches", "kill"] == 0 == found["strikes", "launcher"]
    assert of(found, "mismatches").keys() == of(found, "detection").keys() == {"kill"}


def tried(folder, seed=1, variants=VARIANTS, steps=100, every=5):
    recipe = Recipe(SHAPE, 2, seed, 1e-3)
    return trial.Trial(host(folder, seed), recipe, steps, every, 60.0, 1.0, folder / "x", variants)


def test_strikes_follow_from_the_seed_each_after_two_saves_of_its_own(tmp_path):
    ranks, places = set(), set()
    for seed in range(40):
        one = tried(tmp_path, seed)
        struck = [one.chosen(number, 0) for number in range(5)]
        assert struck == [tried(tmp_path, seed).chosen(number, 0) for number in range(5)]
        steps = [0, *(step for _, step in struck)]
        assert all(after - before > 5 for before, after in itertools.pairwise(steps)) and steps[-1] < 99
        assert struck[1][1] % 5 == 1, "a hang right after a save"
        assert all(10 < one.chosen(4, attempt)[1] <= one.slot for attempt in (1, 2)), "a run of its own"
        ranks, places = ranks | {rank for rank, _ in struck}, places | set(struck)
    assert ranks == {0, 1, 2} and len(places) > 50


@pytest.mark.parametrize("run", ["reference", "kill-0", "resumed"])
def test_a_run_that_fails_by_itself_is_an_error_that_names_it(tmp_path, run):
    with pytest.raises(RuntimeError, match=rf"(?s){run}: .*the rank's own fault"):
        list(PROBE.run(host(tmp_path, **{run: "crash"}), **short("kill")))
    assert not (tmp_path / "checkpoints").exists()


def test_a_run_that_hangs_is_ended_and_named(tmp_path):
    with pytest.raises(TimeoutError, match="reference: ranks not done"):
        list(PROBE.run(host(tmp_path, reference="hang"), **{**SHORT, "timeout": 0.1}))
    assert not any(start_time(int(path.read_text())) for path in (tmp_path / "reference").glob("pid.*"))


def test_what_cannot_be_tried_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(ForkedHost, "ranks", lambda *_: pytest.fail("something ran"))
    for wrong, why in {
        "every": ({"every": STEPS}, "no step to be struck in: for 2 variants it takes 76 steps"),
        "unknown": ({"variants": ["kill", "hangs"]}, "hangs.*hang"),
        "twice": ({"variants": ["kill", "kill"]}, "each is tried once"),
    }.values():
        with pytest.raises(strict.Refused, match=why):
            list(PROBE.run(host(tmp_path), **{**SHORT, **wrong}))
    monkeypatch.setattr(trial.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(OSError, match="checkpoints: 10 bytes free, "):
        list(PROBE.run(host(tmp_path), **SHORT))


def test_checkpoints_lie_where_they_shall_and_a_missing_place_is_refused(tmp_path):
    place = tmp_path / "array"
    with pytest.raises(NotADirectoryError, match="array: not there"):
        list(PROBE.run(host(tmp_path), **short("kill"), directory=str(place)))
    place.mkdir()
    (place / "precious").write_text("x")
    steps = PROBE.run(host(tmp_path / "scratch"), **short("kill"), directory=str(place))
    while not isinstance(taken := next(steps), Reading) or taken.metric != "steps_lost":
        pass
    [own] = place.glob("gpuburn-resume-*")
    assert list(own.glob("step-*"))
    steps.close()
    assert [path.name for path in place.iterdir()] == ["precious"]


PEACE = Told(
    {step: f"{step}" for step in range(1, 11)}, {(rank, step): f"{step}" for rank in (0, 1) for step in (0, 5, 10)}
)


def seen(losses, states, **wrong):
    told = Told({step: f"{step}" for step in losses}, {(rank, step): f"{step}" for rank in (0, 1) for step in states})
    for name, value in wrong.items():
        kind, *place = name.split("_")
        told.losses.update({int(place[0]): value} if kind == "loss" else {})
        told.states.update({(int(place[0]), int(place[1])): value} if kind == "state" else {})
    return told


@pytest.mark.parametrize(
    "told, ended, count",
    [
        (seen(range(6, 11), (5, 10)), True, 0),
        (seen(range(6, 11), (5, 10), loss_7="x"), True, 1),
        (seen(range(6, 11), (5, 10), state_1_5="x"), True, 1),
        (seen(range(6, 11), (5, 10), state_1_10="x"), True, 1),
        (seen(range(6, 11), (5,)), True, 2),
        (seen(range(7, 11), (5, 10)), True, 1),
        (seen(range(5, 11), (5, 10)), True, 1),
        (seen(range(1, 11), (0, 5, 10)), True, 7),
        (seen(range(6, 12), (5, 10)), True, 1),
        (seen([], []), True, 9),
        (seen(range(6, 9), (5,)), False, 0),
        (seen(range(6, 9), (5,), loss_8="x"), False, 1),
        (seen(range(6, 9), (5,), state_0_5="x"), False, 1),
        (seen(range(6, 9), ()), False, 2),
        (seen(range(6, 11), (5,)), False, 0),  # the state after its last step may not have been told
        (seen(range(6, 11), (5,), state_0_10="x"), False, 1),
        (seen([6, 8], (5,)), False, 1),
    ],
)
def test_what_counts_as_a_mismatch(told, ended, count):
    assert differences(PEACE, told, saved=5, ended=ended) == count


def test_a_process_that_outlives_its_launcher_is_counted_and_ended():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    alive = [(child.pid, start_time(child.pid)), (child.pid, 1), (2**22 + 1, 1)]
    assert not stopped(child.pid)
    child.send_signal(signal.SIGSTOP)
    while not stopped(child.pid):
        pass
    assert remaining(alive, 0.0) == 1
    assert child.wait(10) == -9 and stopped(child.pid)
    assert remaining(alive, 0.0) == 0


def test_a_torn_file_keeps_its_size_and_loses_one_bit(tmp_path):
    path = shard.data(tmp_path, 1)
    path.write_bytes(bytes(9))
    tear(tmp_path, 1)
    assert path.read_bytes() == bytes([0, 0, 0, 0, 1, 0, 0, 0, 0])
