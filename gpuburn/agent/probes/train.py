"""Mixed-precision training of a small decoder over every device of the host."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuburn.agreement import disagreeing
from gpuburn.measurement import Fact, Metric, Observed, Reading, Work
from gpuburn.probe import Taken, probe

if TYPE_CHECKING:
    from gpuburn.agent.device import Device
    from gpuburn.agent.training.loop import Recipe, Took, Training

REPORTED = 1.0  # seconds of training behind each reading


@probe(
    scope="ranks",
    revision=2,
    filled={"peak": "peak"},
    tokens=Metric("token/s", doc="tokens learnt from per second, of one device", better="higher"),
    tflops=Metric("TFLOP/s", doc="operations a second of one: 6 (N - N_embed) + 12 L h s a token", better="higher"),
    mfu=Metric("1", doc="model FLOPs utilization: tflops over the SKU's dense peak in this format", better="higher",
               unless="peak_of"),
    step_time=Metric("s", doc="one step: forward, backward, exchange, update", better="lower"),
    step_p95=Metric("s", "last", doc="95th percentile (nearest rank) of the step times, the first tenth left out"),
    step_slowest=Metric("s", "max", doc="the slowest step after the first tenth of the compared steps"),
    step_tail=Metric("1", "last", doc="95th percentile over median of the step times, the first tenth left out"),
    compute=Metric("s", doc="forward and backward of this device alone; the exchange evens step times", better="lower"),
    loss=Metric("1", "last", doc="mean loss over all ranks, in nats: the curve"),
    loss_first=Metric("1", "last", doc="loss of the first step; ln V when nothing is known yet"),
    loss_last=Metric("1", "last", doc="mean loss of the last tenth of the steps (5 to 50)"),
    loss_gap=Metric("1", "last", doc="how far loss_last is above the entropy of the language, the best possible"),
    improvement=Metric("1", "last", doc="loss_first - loss_last"),
    learnt=Metric("1", "last", doc="improvement over what there was to learn: 0 is nothing, 1 is all"),
    anomalies=Metric("count", "sum", doc="steps with a loss or gradient that is not finite, or a loss that leaps"),
    replicas_differ=Metric("count", "sum", doc="checks that found other bits here than on most devices"),
    skips=Metric("1", "last", "share of steps after the first tenth that FP16's scaler left out; 0 in other formats"),
    scale=Metric("1", "last", "what FP16's scaler multiplies the loss with at the end; 1 in other formats"),
    memory=Metric("1", "last", "tensors at their most over the device's whole memory, its context not counted"),
    guard_changed=Metric("count", "sum", "random words in the memory left over that ended with other bits: 1, else 0"),
    rows=Observed("rows of text of one device in a step: as planned, or as many as fill the memory"),
    peak_of=Observed("the peak that mfu is a share of, or 'none: ' and why there is none"),
    loss_bits=Observed("digest of the compared steps' losses to the last bit"),
    gradients=Observed("running sum of the bits of all exchanged gradients of the compared steps"),
    parameters=Observed("checksum of the weights' bits after the compared steps"),
    smoke={
        "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 64, "sequence": 32, "batch": 4,
        "steps": 60, "check_every": 20, "learning_rate": 3e-3,
    },
)  # fmt: skip
def train(
    device: Device, layers: int = 8, width: int = 4096, heads: int = 32, kv_heads: int = 8, ffn: int = 14336,
    vocab: int = 32768, sequence: int = 4096, batch: int = 4, learning_rate: float = 3e-4, warmup: int = 10,
    steps: int = 300, seconds: float = 0.0, check_every: int = 25, dtype: str = "bfloat16", fill: float = 0.0,
    peak: float = 0.0,
) -> Iterator[Taken]:  # fmt: skip
    """Train a Llama-shaped decoder from a seed on a language whose entropy is known, and check that it learns.

    The first `steps` steps have the same bits on every host of a SKU, and are what facts are about; training then goes
    on until `seconds` are over. Replicas are compared before the first step, every check_every steps, after the last.
    A corruption before the exchange reaches all replicas alike: only loss_bits, against another host, shows it.

    dtype: of products and activations: bfloat16, float16 (with a gradient scaler) or float32; weights, gradients and
    moments are FP32. fill: share of the device's memory that the batch is made large enough to fill, the same on all
    ranks; 0 is a batch of `batch` rows. peak: TFLOP/s of the SKU in dtype, dense; the plan fills it in, 0 is unknown.
    MFU as in PaLM (arXiv 2204.02311, appendix B) and torchtitan: no recomputation, causality not deducted.

    Exercises: tensor cores, memory, the exchange between devices, the optimizer, all of them together and for long.
    Does not exercise: storage, the fabric between hosts, overlap of exchange and computation, FP8.
    """
    from gpuburn.agent.training.fit import Fit, Guard, fitted
    from gpuburn.agent.training.loop import Recipe, Training, reproducible
    from gpuburn.agent.training.model import Shape

    shape = Shape(layers, width, heads, kv_heads, ffn, vocab, sequence)
    recipe = Recipe(shape, batch, device.seed, learning_rate, warmup, dtype=dtype)
    with reproducible():
        fit = fitted(recipe, device, fill) if fill else Fit(batch, 0)
        with device.metered() as most:
            guard = Guard.of(device, fit.rest)
            training = Training(replace(recipe, batch=fit.rows), device)
            yield Reading("replicas_differ", differs(training))
            began = [training.advance()]
            yield Reading("memory", most() / device.memory)
        yield Fact("rows", str(fit.rows))
        yield from _trained(training, began, Length(steps, seconds, check_every), peak)
        yield Reading("guard_changed", float(guard.changed()))


@dataclass(frozen=True, slots=True)
class Length:
    """steps: the compared ones, done in any case. seconds: of training at least. every: steps between comparisons."""

    steps: int
    seconds: float
    every: int


def _trained(training: Training, began: list[Took], length: Length, peak: float) -> Iterator[Taken]:
    """All steps, of which some are done; the peak in TFLOP/s."""
    from gpuburn.agent.training.watch import Spikes, bits

    recipe = training.recipe
    said = f"{peak:g} TFLOP/s, dense, {recipe.dtype}"
    yield Fact("peak_of", said if peak else f"none: no SKU was ordered whose peak in {recipe.dtype} is known")
    spikes, window, course, spent = Spikes(), Window(recipe, length.steps, peak), Course(), 0.0
    # elapsed is the mean over the ranks, the same bits on each: they agree on the last step, and none waits for ever.
    while began or training.step < length.steps or spent < length.seconds:
        took = began.pop(0) if began else training.advance()
        spent += took.elapsed
        course.add(took)
        window.add(took, spikes.odd(took))
        if window.full:
            yield from window.emptied()
        if took.step == length.steps:
            yield Fact("loss_bits", bits(course.losses))
            yield Fact("gradients", training.witness())
            yield Fact("parameters", training.parameters())
        if took.step % length.every == 0:
            yield Reading("replicas_differ", differs(training))
    yield from window.emptied()
    yield Reading("replicas_differ", differs(training))
    yield Reading("scale", float(training.scaler.get_scale()))
    yield from course.ended(recipe)


def differs(training: Training) -> float:
    """1 where this rank's bits are not those of most ranks, or where nobody can tell whose are right."""
    import torch.distributed as dist

    said: list[str] = [""] * training.world
    dist.all_gather_object(said, training.witness() + training.parameters() + training.state())
    return float(str(training.rank) in disagreeing({str(rank): one for rank, one in enumerate(said)}))


@dataclass(slots=True)
class Course:
    """The whole run so far, one number of each kind per step."""

    losses: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    skipped: list[bool] = field(default_factory=list)

    def add(self, took: Took) -> None:
        self.losses.append(took.loss)
        self.times.append(took.seconds)
        self.skipped.append(took.skipped)

    def ended(self, recipe: Recipe) -> Iterator[Taken]:
        """What the curve amounts to. Nothing is said of a loss that is not finite: absent is never a pass."""
        from gpuburn.agent.training.watch import learning, tail, warm

        late, middle = tail(self.times)
        yield Reading("step_p95", late)
        yield Reading("step_tail", late / middle)
        yield Reading("skips", statistics.fmean(warm(self.skipped)))
        found = learning(self.losses, recipe.language.floor)
        if found is None:
            return
        yield Reading("loss_first", found.first)
        yield Reading("loss_last", found.last)
        yield Reading("loss_gap", found.gap)
        yield Reading("improvement", found.improvement)
        yield Reading("learnt", found.learnt)


@dataclass(slots=True)
class Window:
    """The steps since the last readings; steps is the number of compared ones, whose first tenth warms up.

    peak: TFLOP/s of the device at its best; 0 is unknown.
    """

    recipe: Recipe
    steps: int
    peak: float = 0.0
    taken: list[Took] = field(default_factory=list)
    odd: int = 0

    def add(self, took: Took, odd: bool) -> None:
        self.taken.append(took)
        self.odd += odd

    @property
    def full(self) -> bool:
        return sum(took.seconds for took in self.taken) >= REPORTED

    def emptied(self) -> Iterator[Taken]:
        """Readings of these steps; then there are none."""
        if not self.taken:
            return
        times = [took.seconds for took in self.taken]
        tokens = len(times) * self.recipe.tokens / sum(times)
        yield Reading("tokens", tokens)
        tflops = tokens * self.recipe.shape.flops_per_token / 1e12
        yield Reading("tflops", tflops)
        if self.peak:
            yield Reading("mfu", tflops / self.peak)
        yield Reading("step_time", statistics.median(times))
        yield Reading("compute", statistics.median(took.compute for took in self.taken))
        warm = [took.seconds for took in self.taken if took.step > self.steps // 10]
        if warm:
            yield Reading("step_slowest", max(warm))
        finite = [took.loss for took in self.taken if took.finite]
        if finite:
            yield Reading("loss", finite[-1])
        yield Reading("anomalies", float(self.odd))
        yield Work(iterations=len(times), bytes=len(times) * self.recipe.shape.parameters * 4)
        self.taken, self.odd = [], 0
