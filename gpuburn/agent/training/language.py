"""A language that can be learnt: a noisy affine map from each token to the next, whose entropy is known exactly.

Random tokens would hold the loss at ln V for ever and hide everything; here it falls from ln V to the floor.
Text is a pure function of seed, step and rank, so that a resumed run needs no position in any file.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass

import torch

from gpuburn.strict import Refused


def derive(*words: object) -> int:
    """A seed of 63 bits for one purpose, from the words that name it."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class Language:
    """next = (a token + c) mod vocab with probability 1 - noise, else uniform. a and c come from the seed.

    vocab is a power of two, a = 1 mod 4 and c odd: the map then is one cycle through all tokens (Hull and Dobell 1962).
    """

    vocab: int
    noise: float
    seed: int

    def __post_init__(self) -> None:
        if self.vocab < 4 or self.vocab & (self.vocab - 1):
            raise Refused(f"vocab {self.vocab} is not a power of two from 4 up")
        if not 0 < self.noise < 1:
            raise Refused(f"noise {self.noise} is not between 0 and 1")

    @property
    def floor(self) -> float:
        """Entropy of the next token given the last, in nats: no model's expected loss is below it."""
        other = self.noise / self.vocab
        expected = 1 - self.noise + other
        return -expected * math.log(expected) - (self.vocab - 1) * other * math.log(other)

    @property
    def map(self) -> tuple[int, int]:
        chosen = derive("map", self.seed)
        return 4 * (chosen % (self.vocab // 4)) + 1, 2 * (chosen // self.vocab % (self.vocab // 2)) + 1

    def text(self, step: int, rank: int, batch: int, sequence: int) -> torch.Tensor:
        """batch rows of sequence + 1 tokens, in host memory: inputs are all but the last, targets all but the first.

        Made on the host on every kind of device: the same text has the same bits wherever it is read.
        """
        generator = torch.Generator().manual_seed(derive("text", self.seed, step, rank))
        fresh = torch.randint(self.vocab, (batch, sequence + 1), generator=generator)
        restarts = torch.rand(batch, sequence + 1, generator=generator) < self.noise
        restarts[:, 0] = True
        places = torch.arange(sequence + 1).expand(batch, -1)
        since = torch.cummax(torch.where(restarts, places, 0), dim=1).values
        factors, terms = _powers(*self.map, self.vocab, sequence + 1)
        distance = places - since
        return (factors[distance] * fresh.gather(1, since) + terms[distance]) % self.vocab


@functools.lru_cache(maxsize=4)
def _powers(a: int, c: int, vocab: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The map applied k times, for every k below count: factor and term."""
    factors, terms = [1], [0]
    for _ in range(count - 1):
        factors.append(factors[-1] * a % vocab)
        terms.append((terms[-1] * a + c) % vocab)
    return torch.tensor(factors), torch.tensor(terms)
