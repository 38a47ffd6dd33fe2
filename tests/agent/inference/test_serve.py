"""The serve probe: what it promises is there, and a device that errs is seen."""

from __future__ import annotations

import torch

from gpuburn.agent.inference import load
from gpuburn.agent.inference.engine import Request, Step
from gpuburn.agent.inference.load import Segment
from gpuburn.agent.probes.serve import again, latencies, readings
from gpuburn.evidence import amounts
from gpuburn.measurement import NOWHERE, Point, Reading
from gpuburn.probe import discover

SERVE = discover()["serve"]
ENOUGH = {**SERVE.smoke, "concurrencies": [2], "requests": 64, "steps": 64}


def test_every_promise_up_to_p90_is_kept_with_64_requests_and_steps(device):
    measurements, facts, work = amounts(SERVE.run(device, **ENOUGH), [SERVE])
    names = {m.name.partition(".")[2] for m in measurements if m.point == Point.of(concurrency=2)}
    assert names == {name for name in SERVE.metrics if not name.endswith("p99")}
    assert {fact.name for fact in facts} == {"serve.tokens", "serve.logits", "serve.mode"} and len(facts) == 3
    assert work[""].iterations >= 64 and work[""].bytes > 0


def test_a_weight_that_changes_during_the_run_changes_the_digest(device, monkeypatch):
    honest = load.window

    def corrupting(loop, quota, size):
        for part in honest(loop, quota, size):
            loop.engine.decoder.blocks[0].down.data[:8] *= -1
            yield part

    monkeypatch.setattr(load, "window", corrupting)
    _, facts, _ = amounts(SERVE.run(device, **SERVE.smoke), [SERVE])
    assert len({fact.value for fact in facts if fact.name == "serve.tokens"}) > 1


def test_logits_that_are_not_finite_are_failed_requests_and_no_latency(device, monkeypatch):
    honest = load.Loop.warm_up

    def poisoned(loop):
        honest(loop)
        loop.engine.decoder.head.data[0] = float("nan")

    monkeypatch.setattr(load.Loop, "warm_up", poisoned)
    measurements, _, _ = amounts(SERVE.run(device, **{**ENOUGH, "requests": 12, "steps": 0}), [SERVE])
    values = {m.name: m.value for m in measurements}
    assert values["serve.failed"] >= 12
    assert "serve.ttft_p50" not in values and "serve.tpot_p50" not in values


def test_latencies_of_a_request():
    request = Request([1], 3, due=1.0, tokens=[4, 5, 6], moments=[1.5, 1.6, 1.9])
    told = {reading.metric: round(reading.value, 6) for reading in latencies(request, NOWHERE)}
    assert told["ttft_p99"] == 500.0 and told["tpot_p99"] == 200.0


def test_a_request_that_failed_after_its_first_token_has_a_first_token_time():
    request = Request([1], 3, due=1.0, tokens=[4], moments=[1.5], failed="logits")
    told = {reading.metric: reading for reading in latencies(request, NOWHERE)}
    assert not told["ttft_p50"].failed and told["tpot_p50"].failed


def test_rates_of_a_segment():
    steps = [Step("prefill", 1, 100, 5, 0.5, 0.5), *[Step("decode", 2, 2, 10**9, 0.1, 0.15)] * 4]
    told = list(readings(Segment(steps, [], 2.0), NOWHERE, every=2))
    values = {one.metric: round(one.value, 6) for one in told if isinstance(one, Reading)}
    assert values["prefill"] == 200.0 and values["decode"] == 4.0
    assert values["bandwidth"] == 10.0 and values["gap"] == 50.0
    assert sum(isinstance(one, Reading) and one.metric == "step_p50" for one in told) == 2


def test_a_bit_that_changes_no_token_changes_the_logits(engine, decoder):
    one, question = engine(), list(range(20))
    before = {fact.name: fact.value for fact in again(one, question, 6)}
    assert {fact.name: fact.value for fact in again(one, question, 6)} == before
    decoder.blocks[0].down.data.view(torch.int32)[3, 5] ^= 1 << 12
    after = {fact.name: fact.value for fact in again(one, question, 6)}
    assert after["tokens"] == before["tokens"] and after["logits"] != before["logits"]


def test_an_answer_that_fails_has_another_digest(engine, decoder):
    one = engine()
    before = {fact.name: fact.value for fact in again(one, [1, 2, 3], 4)}
    decoder.norm.data[0] = float("nan")
    assert {fact.name: fact.value for fact in again(one, [1, 2, 3], 4)}["tokens"] != before["tokens"]


def test_two_devices_give_the_same_answers(device):
    runs = [amounts(SERVE.run(device, **SERVE.smoke), [SERVE])[1] for _ in range(2)]
    assert runs[0] == runs[1]
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
