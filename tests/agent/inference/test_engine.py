"""Chunks, slots and neighbours must not change what is computed."""

from __future__ import annotations

import pytest
import torch

from gpuburn.agent.inference.engine import NOT_FINITE, Clock, Request, answer, greedy
from gpuburn.agent.inference.model import Place, build, cache_of, rotated
from gpuburn.agent.inference.shape import Shape

SMALL = Shape(layers=1, width=64, heads=8, kv_heads=2, hidden=96, vocab=160)
PROMPT = [(7 * i + 3) % 160 for i in range(37)]


class Spy:
    """A decoder that remembers its logits."""

    def __init__(self, decoder, seen):
        self.decoder, self.seen, self.shape = decoder, seen, decoder.shape

    def __call__(self, *given):
        self.seen.append(self.decoder(*given))
        return self.seen[-1]


def logits(decoder, tokens, cuts):
    """Logits after each piece of tokens, computed piece by piece."""
    cache, found, start = cache_of(decoder, 1, len(tokens)), [], 0
    for end in (*cuts, len(tokens)):
        found.append(decoder(torch.tensor([tokens[start:end]]), cache, 0, torch.tensor([start]), cache.shape[3]))
        start = end
    return found


def alone(decoder, prompt, output):
    """Greedy tokens without any cache to rely on: every token from a whole prefill."""
    tokens = list(prompt)
    for _ in range(output):
        tokens.append(int(logits(decoder, tokens, [])[-1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("cuts", [[1], [16], [16, 32], [5, 6, 7, 30], list(range(1, 37))])
def test_chunks_and_decode_equal_one_prefill(decoder, cuts):
    whole, pieces = logits(decoder, PROMPT, [])[-1], logits(decoder, PROMPT, cuts)
    torch.testing.assert_close(pieces[-1], whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("chunk", [4, 16, 64])
def test_greedy_tokens_are_those_of_whole_prefills(engine, decoder, chunk):
    assert answer(engine(chunk=chunk), PROMPT, 12).tokens == alone(decoder, PROMPT, 12)


@pytest.mark.parametrize(("length", "chunk"), [(61, 64), (64, 64), (100, 48), (63, 16)])
def test_every_token_comes_from_the_logits_of_a_whole_prefill(engine, decoder, length, chunk):
    """Also where a bucket of keys ends within the prompt or the answer."""
    prompt, one, seen = (PROMPT * 3)[:length], engine(length=192, chunk=chunk), []
    one.decoder = Spy(decoder, seen)
    tokens = answer(one, prompt, 6).tokens
    for count, found in enumerate(seen[-6:]):
        torch.testing.assert_close(found, logits(decoder, prompt + tokens[:count], [])[-1], atol=1e-4, rtol=1e-4)


def test_neighbours_that_come_and_go_change_nothing(engine, decoder):
    busy = engine(slots=3, chunk=8)
    requests = [Request(PROMPT[i:], 3 + 2 * i, due=float(i)) for i in range(7)]
    for request in requests:
        busy.submit(request)
    while not all(request.done for request in requests):
        busy.iterate()
    assert [r.tokens for r in requests] == [alone(decoder, r.prompt, r.output) for r in requests]


def test_an_iteration_is_at_most_one_chunk_and_one_decode_step(engine):
    busy = engine(slots=2, chunk=16)
    for due in range(3):
        busy.submit(Request(PROMPT, 8, due=float(due)))
    seen = [[step.kind for step in busy.iterate()[0]] for _ in range(30)]
    assert all(kinds in (["prefill"], ["prefill", "decode"], ["decode"], []) for kinds in seen)
    assert seen[:4] == [["prefill"], ["prefill"], ["prefill", "decode"], ["prefill", "decode"]]


def test_steps_say_what_they_served_and_moved(engine, decoder):
    busy = engine(slots=4, chunk=64)
    busy.submit(Request(PROMPT, 3))
    (prefill, decode), _ = busy.iterate()
    assert (prefill.kind, prefill.tokens, decode.kind, decode.batch) == ("prefill", 37, "decode", 1)
    assert decode.bytes == decoder.shape.step_bytes(4, 64, 4, 4)
    assert 0 < decode.device_s <= decode.host_s


def test_tokens_that_do_not_fit_are_refused(engine):
    with pytest.raises(ValueError, match="the cache holds 128"):
        engine(length=128).submit(Request(PROMPT, 128 - len(PROMPT) + 1))


def test_a_request_with_logits_that_are_not_finite_fails_and_frees_its_slot(engine, decoder):
    decoder.head.data[5, 3] = float("nan")
    one = engine()
    request = answer(one, PROMPT, 4)
    assert "not finite" in request.failed and request.tokens == []
    assert one.slots == [None]


def test_not_finite_is_no_token():
    rows = torch.tensor([[1.0, 3.0, 2.0], [float("inf"), 0.0, 0.0]])
    assert greedy(rows).tolist() == [1, NOT_FINITE]


def test_the_seed_makes_the_weights_and_fan_in_their_size(decoder):
    again = build(decoder.shape, torch.device("cpu"), torch.float32, seed=7)
    other = build(decoder.shape, torch.device("cpu"), torch.float32, seed=8)
    assert all(torch.equal(a, b) for a, b in zip(decoder.parameters(), again.parameters()))
    assert not torch.equal(decoder.head, other.head)
    assert float(decoder.blocks[0].down.std()) * decoder.shape.hidden**0.5 == pytest.approx(1.0, rel=0.05)


def test_positions_turn_pairs_as_complex_numbers():
    x = torch.randn(1, 5, 2, SMALL.head)
    place = Place(SMALL, 0, torch.tensor([3]), 5, 64, torch.float32)
    low, high = x.chunk(2, dim=-1)
    angle = torch.arange(3, 8)[:, None] * 500_000.0 ** (-torch.arange(SMALL.head // 2) * 2 / SMALL.head)
    turned = torch.complex(low, high) * torch.polar(torch.ones_like(angle), angle)[None, :, None]
    torch.testing.assert_close(rotated(x, place.turn), torch.cat((turned.real, turned.imag), dim=-1))


def test_a_stopped_clock_stands_still(monkeypatch):
    moments = iter([0.0, 10.0, 14.0, 15.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(moments))
    clock = Clock()
    assert clock.now() == 0.0
    with clock.stopped():
        pass
    assert clock.now() == 11.0
