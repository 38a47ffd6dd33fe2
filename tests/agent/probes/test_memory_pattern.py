"""The pattern test on memory that a test has spoilt beneath it: a dispatch mode acts after every operation on it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import runs
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpuburn.agent.probes import memory_pattern
from gpuburn.finding import Finding, Verdict
from gpuburn.measurement import Fact, Point, Reading, Work
from gpuburn.outcome import Status
from gpuburn.plan import Plan
from gpuburn.probe import Taken, discover
from tests.agent.training.alone import device

PROBE = discover()["memory_pattern"]
MIB = 2**20
WORDS = 3 * MIB // 8  # of the smoke parameters
PLACE = WORDS // 2 + 77  # in the second of three chunks
ROOM = MIB // 8
PARAMS = PROBE.settled(PROBE.smoke, "test")


class Spoilt(TorchDispatchMode):
    """After each operation the harm is done to the tested memory, found by its size: the biggest allocation."""

    def __init__(self, harm: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self.harm, self.memory, self.busy = harm, None, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.numel() == WORDS and out.dtype == torch.int64:
            self.memory = out
        if self.memory is not None and not self.busy:
            self.busy = True
            try:
                self.harm(self.memory)
            finally:
                self.busy = False
        return out


def stuck(bit: int, at: int) -> Callable[[torch.Tensor], None]:
    """One cell holds always the same."""
    mask = -(2**63) if bit == 63 else 1 << bit

    def harm(memory: torch.Tensor) -> None:
        memory[PLACE] = memory[PLACE] | mask if at else memory[PLACE] & ~mask

    return harm


def aliased(memory: torch.Tensor) -> None:
    """An address line that does not switch: the upper word is never reached, and reads as the lower one."""
    memory[PLACE] = memory[PLACE ^ ROOM]


def run(tmp_path: Any, harm: Callable[[torch.Tensor], None] | None = None, **params: Any) -> list[Taken]:
    one = device(tmp_path)
    generator = PROBE.run(one, **{**PARAMS, **params})
    if harm is None:
        return list(generator)
    with Spoilt(harm):
        return list(generator)


def wrong(taken: list[Taken]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in taken:
        if isinstance(one, Reading) and one.metric == "wrong":
            pattern = str(one.point.as_data()["pattern"])
            found[pattern] = found.get(pattern, 0) + int(one.value)
    return found


def first(taken: list[Taken]) -> str:
    return next(one.value for one in taken if isinstance(one, Fact))


@functools.cache
def planned() -> Plan:
    plan = runs.plan(runs.request(count=1), ("memory_pattern",))
    return dataclasses.replace(plan, steps=[dataclasses.replace(plan.steps[0], params=PARAMS)])


def findings(taken: list[Taken], **fared: Any) -> Iterator[Finding]:
    """What comes of it on a host of one such device, by the shipped limits."""
    plan = planned()
    [step] = plan.steps
    beside = [one for one in runs.answers(plan)[step.name] if not isinstance(one, Work) and not declared(one)]
    mine = [dataclasses.replace(one, subject="cpu0") for one in taken]
    outcome = runs.outcome(plan, step, [*mine, *beside], **fared)
    yield from (one for one in runs.judged(plan, {step.name: outcome}) if one.step == step.name)


def declared(one: Taken) -> bool:
    return (one.metric if isinstance(one, Reading) else getattr(one, "name", "")) in PROBE.promises


def bad(taken: list[Taken]) -> list[tuple[str, str, str]]:
    return [(f.code, f.about, str(f.point)) for f in findings(taken) if f.verdict in (Verdict.FAIL, Verdict.INCOMPLETE)]


def test_sound_memory_is_covered_and_without_finding(tmp_path):
    taken = run(tmp_path)
    assert wrong(taken) == dict.fromkeys(memory_pattern.PATTERNS, 0)
    assert first(taken) == "nothing" and bad(taken) == []
    covered = [one.value for one in taken if isinstance(one, Reading) and one.metric == "coverage"]
    assert covered == [3 * MIB / device(tmp_path).memory]
    reads = 2 + 3 * PARAMS["words"] + 2 + 2
    assert sum(one.bytes for one in taken if isinstance(one, Work)) == reads * 3 * MIB


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("bit", [0, 17, 63])
def test_a_stuck_bit_is_counted_in_every_pattern_and_named(bit, at, tmp_path):
    """Each pattern writes both states to every cell; a stuck one is wrong in exactly one of each two reads."""
    taken = run(tmp_path, stuck(bit, at))
    found = wrong(taken)
    assert found["address"] == found["random"] == found["retention"] == 1
    assert PARAMS["words"] <= found["inversions"] <= 2 * PARAMS["words"]
    assert f"byte 0x{8 * PLACE:x}" in first(taken) and first(taken).endswith(f"differing 0x{1 << bit:016x}")
    assert {code for code, *_ in bad(taken)} == {"limit.failed"} and len(bad(taken)) == 4


def test_an_address_line_that_aliases_is_found_by_the_words_own_address(tmp_path):
    """Every word holds the same in an inversion, so that it cannot see which of two was reached."""
    found = wrong(run(tmp_path, aliased))
    assert found["address"] == 2 and found["random"] == 2 and found["inversions"] <= 2 * PARAMS["words"]
    assert ("limit.failed", "memory_pattern.wrong", "pattern=address") in bad(run(tmp_path, aliased))


@pytest.mark.parametrize("state", [0, 1], ids=["first wait", "second wait"])
def test_a_bit_that_fades_while_it_is_left_alone_is_found_by_retention_alone(state, tmp_path, monkeypatch):
    waits: list[float] = []
    spoilt = Spoilt(lambda memory: None)

    def fade(seconds: float) -> None:
        if len(waits) == state:
            assert spoilt.memory is not None
            spoilt.memory[PLACE] ^= 1 << 40
        waits.append(seconds)

    monkeypatch.setattr(memory_pattern.time, "sleep", fade)
    with spoilt:
        taken = list(PROBE.run(device(tmp_path), **{**PARAMS, "wait": 9.0}))
    assert waits == [9.0, 9.0]
    # What faded before the first read is inverted with the rest, and so is wrong in the second too.
    assert wrong(taken) == {"address": 0, "inversions": 0, "random": 0, "retention": 2 - state}
    assert bad(taken) == [("limit.failed", "memory_pattern.wrong", "pattern=retention")]


def test_every_wrong_word_is_counted_and_the_first_is_named(tmp_path):
    def many(memory: torch.Tensor) -> None:
        memory[ROOM - 3 : ROOM + 4] = 5

    taken = run(tmp_path, many, patterns=["random"])
    assert wrong(taken) == {"random": 14}
    assert f"byte 0x{8 * (ROOM - 3):x}" in first(taken) and "read 0x0000000000000005" in first(taken)


def test_memory_that_is_not_to_be_had_is_incomplete_and_never_less_tested(tmp_path, monkeypatch):
    honest, taken = torch.empty, []

    def refusing(count, *given, **named):
        if count == WORDS:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 MiB")
        return honest(count, *given, **named)

    monkeypatch.setattr(torch, "empty", refusing)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        taken += PROBE.run(device(tmp_path), **PARAMS)
    assert taken == []
    found = list(findings(taken, status=Status.ERRORED, why="OutOfMemoryError: CUDA out of memory"))
    assert {"step.errored", "step.no_work", "limit.unmeasured"} <= {one.code for one in found}
    assert not any(one.verdict is Verdict.PASS and one.about.startswith("memory_pattern.") for one in found)


def test_a_small_share_of_a_gpu_is_not_enough():
    plan = runs.plan(runs.hardware(count=1), ("memory_pattern",))
    [limit] = [one for one in plan.limits if one.about == "memory_pattern.coverage"]
    assert limit.min == 0.85 and limit.can_reject


def test_no_two_chunks_hold_the_same_sequence(tmp_path):
    memory = memory_pattern.Memory.take(device(tmp_path), 3 * MIB, MIB)
    memory.written(memory.sequence)
    assert len({tuple(chunk[:8].tolist()) for chunk in memory.chunks}) == 3
    assert bool((memory.whole < 0).any()) and bool((memory.whole > 0).any())


def test_a_pattern_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown 'adress'; did you mean 'address'"):
        next(PROBE.run(device(tmp_path), patterns=["adress"]))


def test_the_last_chunk_may_be_short(tmp_path):
    taken = run(tmp_path, budget_mib=5, chunk_mib=2)
    assert first(taken) == "nothing" and set(wrong(taken).values()) == {0}
    assert Point.of(pattern="address") in {one.point for one in taken if isinstance(one, Reading)}
