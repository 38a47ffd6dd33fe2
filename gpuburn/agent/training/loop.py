"""The training loop: BF16 autocast over FP32 master weights, one flat all-reduce, AdamW; the same bits every time.

Why one flat all-reduce, and neither DDP nor FSDP2. Default DDP rebuilds its buckets after the first step, so that a
resumed run sums three and more ranks in another order and differs in the last bit: good hardware would be rejected.
FSDP2 is exact, but keeps no replicas: each weight lives on one rank, and a device that corrupts its shard is believed
by all. Here every rank holds every weight, so equal replicas are the proof that each device computed its updates
rightly. The price is memory (16 bytes per parameter on every device), and an exchange that overlaps nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.adamw import adamw

from gpuburn import strict
from gpuburn.agent.device import Device
from gpuburn.agent.training.bits import checksum, trace
from gpuburn.agent.training.language import Language, derive
from gpuburn.agent.training.model import Decoder, Shape, initialise
from gpuburn.strict import Refused

# NVLS sums in no fixed order (NVIDIA/nccl issues 1497 and 2360); a ring of one protocol does. A step's env goes first.
FIXED_ORDER = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_COLLNET_ENABLE": "0",
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
}
# Those of which the backward pass is deterministic when asked to be; cuDNN's is not among them.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
DECAY, BETAS, EPSILON = 0.1, (0.9, 0.95), 1e-8
PRECISIONS = ("bfloat16", "float16", "float32")


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides the bits of a run, together with the number of ranks. batch: rows per rank and step."""

    shape: Shape
    batch: int
    seed: int
    learning_rate: float
    warmup: int = 10
    clip: float = 1.0
    dropout: float = 0.05
    noise: float = 0.1
    dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        if self.dtype not in PRECISIONS:
            raise Refused(f"dtype {self.dtype!r} is none that is trained in: {', '.join(PRECISIONS)}")

    @property
    def language(self) -> Language:
        return Language(self.shape.vocab, self.noise, self.seed)

    @property
    def tokens(self) -> int:
        """Tokens that one rank learns from in a step."""
        return self.batch * self.shape.sequence

    def rate(self, step: int) -> float:
        """Learning rate of a step: a linear rise, then level. A function of the step alone: nothing to save."""
        return self.learning_rate * min(1.0, step / max(1, self.warmup))

    def digest(self, world: int) -> str:
        """The name of this recipe at this number of ranks: only a run of the same name may resume it."""
        return strict.digest(strict.line({"recipe": self, "world": world}))


@dataclass(frozen=True, slots=True)
class Took:
    """One step. loss: mean over all ranks, the same bits on each. norm: of the gradient before it was clipped.

    compute: seconds of this rank's own forward and backward; seconds: of the step. elapsed: the ranks' mean seconds of
    the step before, the same bits on each, so that they can agree on when to end. skipped: FP16 gradients overflowed,
    so that the scaler left the update out and halved its scale, as it is made to.
    """

    step: int
    loss: float
    norm: float
    compute: float
    seconds: float
    elapsed: float
    skipped: bool = False

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and (math.isfinite(self.norm) or self.skipped)


@contextlib.contextmanager
def reproducible() -> Iterator[None]:
    """Deterministic kernels and a fixed order of sums while the block lasts. Enter before the first collective."""
    filling: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), filling.fill_uninitialized_memory
    ours = {name: value for name, value in FIXED_ORDER.items() if name not in os.environ}
    os.environ.update(ours)
    torch.set_deterministic_debug_mode("error")  # not use_deterministic_algorithms, which imports the compiler
    filling.fill_uninitialized_memory = False  # it would only cost bandwidth
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        torch.set_deterministic_debug_mode(before[0])
        filling.fill_uninitialized_memory = before[1]


class Training:
    """A run of a recipe on this rank: step counts the steps that are done. group: the ranks it runs on; None is all."""

    def __init__(self, recipe: Recipe, device: Device, group: dist.ProcessGroup | None = None) -> None:
        self.recipe, self.device, self.step, self.group = recipe, device, 0, group
        self.world, self.rank = dist.get_world_size(group), dist.get_rank(group)
        with torch.device("meta"):
            self.model = Decoder(recipe.shape, getattr(torch, recipe.dtype))
        self.weights, self.gradients = _flatten(self.model, self.world, device.torch)
        initialise(self.model, derive("weights", recipe.seed), device.torch)
        self.master = nn.Parameter(self.weights)
        self.master.grad = self.gradients
        self.moments = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.updates = torch.zeros((), device=device.torch)
        self.mixed = recipe.dtype != "float32"
        # Small FP16 gradients would be zero: the loss is scaled up, the exchanged gradient down again before its use.
        self.scaler = torch.amp.GradScaler(device.torch.type, enabled=recipe.dtype == "float16")
        self.scaled = cast(torch.optim.Optimizer, SimpleNamespace(param_groups=[{"params": [self.master]}]))
        self.noise = torch.Generator(device.torch).manual_seed(derive("dropout", recipe.seed, self.rank))
        self.exchanged = torch.zeros((), device=device.torch, dtype=torch.int64)
        self._loss, self._before = torch.zeros((), device=device.torch), 0.0

    def advance(self) -> Took:
        """One step: learn from this rank's text alone, then agree with the others and update."""
        self.step += 1
        compute = self.device.timed(self.learn)
        said: list[float] = []
        seconds = compute + self.device.timed(lambda: said.extend(self.agree()))
        loss, elapsed, norm = said
        self._before = seconds
        skipped = self.scaler.is_enabled() and not math.isfinite(norm)
        return Took(self.step, loss, norm, compute, seconds, elapsed, skipped)

    def learn(self) -> None:
        """Forward and backward on this rank's own text; no other rank is asked."""
        text = self.recipe.language.text(self.step, self.rank, self.recipe.batch, self.recipe.shape.sequence)
        self.gradients.zero_()
        kind = getattr(torch, self.recipe.dtype if self.mixed else "bfloat16")
        with torch.autocast(self.device.torch.type, dtype=kind, enabled=self.mixed), sdpa_kernel(KERNELS):
            loss = self.model(text.to(self.device.torch), self.recipe.dropout, self.noise)
        self.scaler.scale(loss).backward()
        self._loss = loss.detach()

    def agree(self) -> tuple[float, float, float]:
        """Exchange, clip, and update unless something is not finite: loss, mean elapsed and gradient norm."""
        self.exchange()
        # AdamW rounds the low bits of a gradient away: a flip there leaves no mark on the weights, but it does here.
        self.exchanged.mul_(31).add_(trace(self.gradients))
        means = torch.stack((self._loss.double(), torch.full_like(self._loss, self._before, dtype=torch.float64)))
        dist.all_reduce(means, group=self.group)
        self.scaler.unscale_(self.scaled)
        norm = torch.linalg.vector_norm(self.gradients)
        loss, elapsed = (means / self.world).tolist()
        length = float(norm.item())
        if math.isfinite(loss) and math.isfinite(length):
            self.gradients.mul_(min(1.0, self.recipe.clip / max(length, 1e-12)))
            self.update()
        self.scaler.update()
        return loss, elapsed, length

    def exchange(self) -> None:
        """The mean of all ranks' gradients, in one all-reduce: every rank then holds the same bits."""
        dist.all_reduce(self.gradients, group=self.group)
        self.gradients.div_(self.world)

    def update(self) -> None:
        """One step of AdamW on the flat master weights, which the model's layers are views of.

        The function behind torch.optim.AdamW: the class imports the compiler, for seconds in each process.
        """
        first, second = self.moments
        with torch.no_grad():
            adamw(
                [self.master], [self.gradients], [first], [second], [], [self.updates], fused=True, amsgrad=False,
                beta1=BETAS[0], beta2=BETAS[1], lr=self.recipe.rate(self.step), weight_decay=DECAY, eps=EPSILON,
                maximize=False,
            )  # fmt: skip

    def witness(self) -> str:
        """A running sum of the bits of every exchanged gradient since this object was made."""
        return checksum(self.exchanged)

    def parameters(self) -> str:
        """Checksum of the master weights' bits."""
        return checksum(self.weights)

    def state(self) -> str:
        """Checksum of the optimizer's bits: both moments and the number of updates."""
        return checksum(*self.moments, self.updates)


def _flatten(model: Decoder, world: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Give the model weights and gradients that are views of two flat buffers, padded to a multiple of world."""
    named = list(model.named_parameters())
    count = sum(weight.numel() for _, weight in named)
    flat, gradients = (torch.zeros(-(-count // world) * world, device=device) for _ in range(2))
    place = 0
    for name, weight in named:
        owner, _, last = name.rpartition(".")
        span = slice(place, place + weight.numel())
        view = nn.Parameter(flat[span].view(weight.shape))
        view.grad = gradients[span].view(weight.shape)
        setattr(model.get_submodule(owner), last, view)
        place += weight.numel()
    return flat, gradients
