"""The shapes of decoders, and how many bytes one takes and moves. Arithmetic only: no tensor is made here."""

from __future__ import annotations

from dataclasses import dataclass

BUCKET = 64  # attention reads whole buckets of keys, so that few shapes occur; a cache is a whole number of them


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama-shaped decoder: how deep, how wide, how many query heads share a key-value head."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocab: int

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.heads // self.kv_heads

    @property
    def qkv(self) -> int:
        """Columns of the fused projection to queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head

    @property
    def embedding(self) -> int:
        """Parameters of the input embedding, of which a step reads only its tokens' rows."""
        return self.vocab * self.width

    @property
    def parameters(self) -> int:
        attention = self.width * (self.qkv + self.width)
        layer = attention + 3 * self.width * self.hidden + 2 * self.width
        return 2 * self.embedding + self.layers * layer + self.width

    def cache_values(self, tokens: int) -> int:
        """Keys and values that so many tokens leave in the cache."""
        return 2 * self.layers * self.kv_heads * self.head * tokens

    def step_bytes(self, batch: int, reach: int, written: int, item: int) -> int:
        """Bytes that one step moves: all weights but the embedding, the keys that attention reads, what it writes.

        reach: keys that the kernel reads per sequence, masked ones too. written: tokens that enter the cache.
        """
        weights = self.parameters - self.embedding + written * self.width
        return item * (weights + self.cache_values(batch * reach) + self.cache_values(written))


# Published shapes of Llama 3.1 and 3.2; "tiny" is for a CPU. Input and output embeddings are two tensors here.
PRESETS = {
    "tiny": Shape(layers=4, width=256, heads=8, kv_heads=2, hidden=768, vocab=1024),
    "1b": Shape(layers=16, width=2048, heads=32, kv_heads=8, hidden=8192, vocab=128256),
    "3b": Shape(layers=28, width=3072, heads=24, kv_heads=8, hidden=8192, vocab=128256),
    "8b": Shape(layers=32, width=4096, heads=32, kv_heads=8, hidden=14336, vocab=128256),
}


def bucketed(tokens: int) -> int:
    """The smallest whole number of buckets that holds so many tokens."""
    return -(-tokens // BUCKET) * BUCKET


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that one sequence of a given length needs while its last chunk is computed and while it is checked."""

    shape: Shape
    item: int
    chunk: int

    @property
    def weights(self) -> int:
        return self.shape.parameters * self.item

    def cache(self, tokens: int) -> int:
        return self.shape.cache_values(bucketed(tokens)) * self.item

    def mask(self, tokens: int) -> int:
        """The causal mask of a chunk, one row per query of a group."""
        return self.chunk * self.shape.group * bucketed(tokens) * self.item

    def masking(self, tokens: int) -> int:
        """The most that exists while the mask is made: the mask, one row set of it per query, and its truth values."""
        return self.mask(tokens) + self.chunk * bucketed(tokens) * (self.item + 1)

    def block(self, tokens: int) -> int:
        """The most that exists inside a block: mask, residual, normed input, and attention's or the MLP's tensors."""
        s, rows = self.shape, self.chunk * self.item
        attention = rows * (2 * s.width + s.qkv + 3 * s.width)
        feed_forward = rows * (2 * s.width + 2 * s.hidden + 2 * s.hidden)
        return self.mask(tokens) + max(attention, feed_forward)

    def sums(self, tokens: int) -> int:
        """One 64-bit sum of the cache's bits per token."""
        return 8 * bucketed(tokens)

    def checking(self, tokens: int) -> int:
        """The most that exists while the cache is read back: a page of it as 64-bit integers, and new sums."""
        return self.shape.cache_values(self.chunk) * 8 + self.sums(tokens)

    def total(self, tokens: int) -> int:
        working = max(self.masking(tokens), self.block(tokens), self.checking(tokens))
        return self.weights + self.cache(tokens) + self.sums(tokens) + working


def longest(footprint: Footprint, budget: int) -> int:
    """The most tokens, in whole buckets, whose predicted bytes are within the budget; 0 where not one bucket is."""
    low, high = 0, 1
    while footprint.total(high * BUCKET) <= budget:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if footprint.total(middle * BUCKET) <= budget else (low, middle)
    return low * BUCKET
