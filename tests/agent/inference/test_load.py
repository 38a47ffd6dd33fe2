"""The closed loop keeps its concurrency, and its window leaves nobody out."""

from __future__ import annotations

import time

from gpuburn.agent.inference.load import Loop, Quota, Traffic, window


def traffic(output: int = 6, vocab: int = 160) -> Traffic:
    return Traffic("7 2", vocab, prompt=20, output=output)


def test_no_two_prompts_share_their_first_tokens():
    small = traffic(vocab=5)
    assert len({tuple(small.request().prompt[:3]) for _ in range(125)}) == 125


def test_traffic_is_the_seeds_and_fits_what_it_says():
    one, again = traffic(), traffic()
    made = [one.request() for _ in range(40)]
    assert [(r.prompt, r.output) for r in made] == [(r.prompt, r.output) for r in (again.request() for _ in range(40))]
    assert {r.output for r in made} == set(range(3, 10))
    assert max(len(r.prompt) + r.output for r in made) <= one.longest


def test_every_slot_is_always_taken(engine):
    loop = Loop(engine(slots=3), traffic())
    for _ in range(50):
        loop.turn()
        assert loop.traffic.made == loop.finished + loop.outstanding
        assert 0 <= 3 - loop.outstanding <= 3
    assert loop.finished > 10


def test_a_window_awaits_all_requests_that_it_counts(engine):
    loop = Loop(engine(slots=3), traffic())
    loop.warm_up()
    before, opened = loop.traffic.made, loop.engine.clock.now()
    assert loop.outstanding > 0
    parts = list(window(loop, Quota(requests=9, steps=20, seconds=0.0), size=8))
    done = [request for part in parts for request in part.done]
    assert len(done) >= 9 and all(request.done for request in done)
    assert all(request.due >= opened for request in done)
    assert len(done) <= loop.traffic.made - before
    assert sum(len(part.of("decode")) for part in parts) >= 20
    assert all(len(part.of("decode")) == 8 for part in parts[:-1])


def test_slow_requests_at_the_end_are_counted_too(engine):
    """Those still running when the quota is met are the long ones: their number must not depend on their length."""
    loop = Loop(engine(slots=2), traffic(output=30))
    loop.warm_up()
    made = loop.traffic.made
    parts = window(loop, Quota(requests=1, steps=5, seconds=0.0), size=2)
    first = next(parts)
    assert not first.done
    done = [request for part in parts for request in part.done]
    assert done and loop.traffic.made >= made + len(done)


def test_the_clock_stands_still_while_a_segment_is_looked_at(engine, monkeypatch):
    real, looked = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: real() + looked[0])
    loop = Loop(engine(slots=2), traffic())
    loop.warm_up()
    parts = []
    for part in window(loop, Quota(requests=8, steps=20, seconds=0.0), size=2):
        parts.append(part)
        looked[0] += 1e6
    assert len(parts) > 5 and all(part.seconds < 1e6 for part in parts)
    assert all(request.moments[-1] - request.due < 1e6 for part in parts for request in part.done)
