"""Whether a SKU's numbers can be true; slips of published tables (a unit, a digit, sparse for dense) are refused.

Stops at the possible: whether a possible number is the right one, its source must answer. A number that breaks a rule
may stand for the record with confidence low and a note that says why; it can then neither reject nor warn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuburn.sku import Number, Sku

Bound = tuple[float, float, str]  # lowest and highest possible value, both admitted, and what sets them

DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8")
MEMORY = {
    "triad": "babelstream triad",
    "copy": "babelstream copy",
    "memcpy_d2d": "cudamemcpy d2d",
    "dcgmproftester": "dcgmproftester",
    "p2p_diagonal": "p2pbandwidthlatencytest",
    "stream": "node-burn stream",
}
COPIES = ("h2d", "d2h")
PEAKS = ("memory_bandwidth_peak", "pcie_peak", "c2c_peak", "nvlink_peak")
RANGES = {  # of anything sold so far, with room; what has a peak of its own is bounded by that
    "memory": (8.0, 512.0),
    "memory_bandwidth_peak": (200.0, 20_000.0),
    "peak_fp32": (4.0, 250.0),
    "nvlink_peak": (25.0, 2000.0),
    "c2c_peak": (200.0, 1000.0),
    "nic": (1.0, 200.0),
}
POWER = {"pcie": (40.0, 600.0), "sxm": (250.0, 1200.0), "superchip": (450.0, 1500.0)}
# FLOP per clock and SM by FP16 tensor cores over FP32 units, dense: from NVIDIA's architecture papers. By compute
# capability. Twice as much is the figure with sparsity.
TENSOR = {
    "7.0": 8,
    "7.5": 8,
    "8.0": 16,
    "8.6": 4,
    "8.9": 4,
    "9.0": 16,
    "10.0": 32,
    "10.3": 32,
    "12.0": 4,
}
LANE = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.56}  # GB/s of a PCIe lane, one way, by generation
OVER = "nccl-tests over "  # and the fabric: another fabric is another method
METHODS = {
    **{f"gemm_{dtype}": ("gemm sustained", "gemm best shape", "gemm burst") for dtype in DTYPES},
    **{name: (method,) for name, method in MEMORY.items()},
    **{name: ("pinned copy",) for name in COPIES},
    "p2p": ("p2pbandwidthlatencytest", "nvbandwidth d2d", "peer copy"),
    "p2p_pcie": ("nvbandwidth d2d", "peer copy"),
    "allreduce": ("nccl-tests", "nccl-tests ring", "nccl-tests bridged"),
    "nic": ("rdma write",),
    "decode": ("decode",),
    "decode_share": ("decode",),
}
UNITS = {
    "memory": "GB",
    "power": "W",
    "decode_share": "1",
    **{f"peak_{dtype}": "TFLOP/s" for dtype in (*DTYPES, "fp4")},
    **{name: "TFLOP/s" if name.startswith("gemm_") else "GB/s" for name in METHODS if name != "decode_share"},
    **dict.fromkeys(PEAKS, "GB/s"),
}
# token/s alone says nothing of a device; as bytes it is bounded by the memory that they come from.
WANTED = {"decode": "GB/s: token/s x bytes of weights and cache read for each token"}


def problems(sku: Sku) -> list[str]:
    """What cannot be true, one line each: which number, its value, what is wanted and why. Empty if all can be."""
    found = [*_whole(sku)]
    for name, numbers in sku.numbers.items():
        for index, number in enumerate(numbers):
            where = f"numbers.{name}[{index}]"
            wrong = [*_form(name, number)]
            found += [f"{where}: {one}" for one in wrong]
            if not wrong and not (number.confidence == "low" and number.note):
                found += [f"{where}: {one}" for one in _impossible(sku, name, number)]
    return found


def _whole(sku: Sku) -> Iterator[str]:
    """What must be there, and what must not."""
    wanted = ["memory", "power", "memory_bandwidth_peak"]
    wanted += [f"peak_{dtype}" for dtype in DTYPES if dtype not in sku.unsupported]
    wanted += ["pcie_peak" if sku.pcie else "c2c_peak"] + ["nvlink_peak"] * bool(sku.nvlink)
    for name in wanted:
        if sku.number(name) is None:
            yield f"numbers.{name}: missing; wanted is what the part is specified for"
    for dtype in sku.unsupported:
        for name in (f"peak_{dtype}", f"gemm_{dtype}"):
            if name in sku.numbers:
                yield f"numbers.{name}: {dtype} is unsupported; wanted is one or the other"
    if sku.compute_capability not in TENSOR:
        yield f"compute_capability: {sku.compute_capability!r} is not known; wanted is one of {', '.join(TENSOR)}"


def _form(name: str, number: Number) -> Iterator[str]:
    unit = UNITS.get(name)
    if unit is None:
        yield f"not a reference number; wanted is one of {', '.join(sorted(UNITS))}"
    elif number.unit != unit:
        yield f"{number.value:g} {number.unit}; wanted is {WANTED.get(name, unit)}"
    if not number.source.strip():
        yield "no source; wanted is where the number was published"
    methods = METHODS.get(name, ("",))
    if number.method not in methods and not (name == "allreduce" and number.method.startswith(OVER)):
        yield f"method is {number.method!r}; wanted is {' or '.join(map(repr, methods))}"
    if (number.basis == "datasheet") != (name not in METHODS) and number.basis != "derived":
        yield f"basis is {number.basis}; wanted is {'datasheet' if name not in METHODS else 'measured or threshold'}"
    if number.devices < 0 or (number.devices and name != "allreduce"):
        yield f"devices is {number.devices}; wanted is 0, or the number of GPUs of an all-reduce"


def _impossible(sku: Sku, name: str, number: Number) -> Iterator[str]:
    for rule in RULES:
        for low, high, why in rule(sku, name, number):
            if not low <= number.value <= high:
                span = f"at most {high:.5g}" if low <= 0 else f"{low:.5g} to {high:.5g}"
                yield f"{number.value:g} {number.unit} ({number.basis}); wanted is {span}: {why}"


def _range(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """Thousands for units, watts of another form, a share above 1."""
    if name in RANGES:
        yield *RANGES[name], "what any GPU has"
    if name == "power":
        yield *POWER[sku.form], f"what a board of form {sku.form} takes"
    if name == "decode_share":
        yield 0.05, 1.0, "a share of the bandwidth"
    marketed = sku.id.rpartition("-")[2]
    if name == "memory" and marketed.endswith("gb") and marketed[:-2].isdecimal():
        yield *_near(float(marketed[:-2]), 0.03), f"the size in the id {sku.id}"


def _dense(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """Peaks of tensor cores double from TF32 to FP16 to FP8; with sparsity counted in, a step is four."""
    for one, half in (("peak_fp16", "peak_tf32"), ("peak_fp8", "peak_fp16")):
        if name == one and (below := sku.number(half)):
            yield *_near(2 * below.value, 0.03), f"twice {half} {below.value:g}, dense"
    if name == "peak_bf16" and (same := sku.number("peak_fp16")):
        yield *_near(same.value, 0.03), f"peak_fp16 {same.value:g}"
    if name == "peak_fp16" and (plain := sku.number("peak_fp32")) and sku.compute_capability in TENSOR:
        most = 1.05 * TENSOR[sku.compute_capability] * plain.value
        yield 0.0, most, f"dense tensor cores of {sku.compute_capability} beside peak_fp32 {plain.value:g}"
    if name == "peak_fp4" and (below := sku.number("peak_fp8")):
        yield 1.94 * below.value, 3.1 * below.value, f"two or three times peak_fp8 {below.value:g}, dense"


def _specified(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """A peak is what clock and width, lanes or links make of it."""
    if name == "memory_bandwidth_peak" and sku.memory_clock and sku.memory_bus:
        peak = 2 * sku.memory_clock * sku.memory_bus / 8 / 1e3
        yield *_near(peak, 0.03), f"2 x {sku.memory_clock:g} MHz x {sku.memory_bus} bit / 8"
    if name == "pcie_peak" and sku.pcie:
        yield *_near(LANE.get(sku.pcie.gen, 0.0) * sku.pcie.width, 0.02), f"Gen{sku.pcie.gen} x{sku.pcie.width}"
    if name == "nvlink_peak" and sku.nvlink and sku.nvlink.links and sku.nvlink.per_link:
        links, each = sku.nvlink.links, sku.nvlink.per_link
        yield *_near(links * each, 0.01), f"{links} links of {each:g}"


def _reached(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """What is reached of a peak: lost digits, TF32 in the FP32 column, megabytes for gigabytes, a link half as wide."""
    if name.startswith("gemm_") and (peak := sku.number(name.replace("gemm", "peak"))):
        most = 1.25 if sku.exceeds_peak_ok else 1.05
        yield 0.35 * peak.value, most * peak.value, f"0.35 to {most:g} of peak {peak.value:g}"
    top = _top(number)
    if name in MEMORY and (peak := sku.number("memory_bandwidth_peak")):
        low = 0.5 if number.basis == "threshold" else 0.4
        yield low * peak.value, top * peak.value, f"{low:g} to {top:g} of peak {peak.value:g}"
    if name == "decode" and (peak := sku.number("memory_bandwidth_peak")):
        yield 0.05 * peak.value, peak.value, f"no more is read than the memory gives, {peak.value:g}"
    if name in COPIES and (peak := sku.number("pcie_peak") or sku.number("c2c_peak")):
        yield 0.5 * peak.value, top * peak.value, f"0.5 to {top:g} of the link's {peak.value:g}"
    for one, link in (("p2p", "nvlink_peak"), ("p2p_pcie", "pcie_peak")):
        if name == one and (peak := sku.number(link)):
            yield 0.4 * peak.value, top * peak.value, f"0.4 to {top:g} of {link} {peak.value:g}"


def _bus(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """What an all-reduce can reach on its links.

    In a ring every byte that busbw counts crosses the GPU's link, so the link bounds it (nccl-tests PERFORMANCE.md).
    With NVLS the switch adds: in S bytes of all-reduce on n GPUs each sends and receives S (1 + 1/n), for which busbw
    counts 2 (n-1)/n S, so it may reach 2 (n-1)/(n+1) of the link: 1.56 for 8 GPUs (480 of 450 was measured). NVSwitch
    does that from Hopper on, within one NVLink domain; over another fabric, NVLink is the widest part of the way.
    """
    if name != "allreduce":
        return
    nvlink = sku.number("nvlink_peak")
    if nvlink is None or number.method == f"{OVER}pcie":
        if peak := sku.number("pcie_peak"):
            yield 0.35 * peak.value, _top(number) * peak.value, f"0.35 to {_top(number):g} of pcie_peak {peak.value:g}"
        return
    switched = number.method == "nccl-tests" and sku.form != "pcie" and float(sku.compute_capability) >= 9
    count = number.devices or 8
    most = _top(number) * (2 * (count - 1) / (count + 1) if switched and count > 2 else 1.0)
    least = 0.0 if number.method.startswith(OVER) else 0.35
    why = f"{least:g} to {most:.3g} of nvlink_peak {nvlink.value:g}{' with NVLS' if switched else ''}"
    yield least * nvlink.value, most * nvlink.value, why


def _floor(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """A threshold above what a good device was measured at accuses good devices."""
    if number.basis == "threshold" and (alike := _measured(sku, name, number)):
        yield 0.0, min(alike), f"a good device was measured at {min(alike):g}"


def _agreement(sku: Sku, name: str, number: Number) -> Iterator[Bound]:
    """Two who measured the same in the same way are within twice of each other; what falls out lost a digit."""
    if number.basis == "measured" and (alike := _measured(sku, name, number)):
        yield max(alike) / 2, 2 * min(alike), f"others measured {min(alike):g} to {max(alike):g} by {number.method}"


def _measured(sku: Sku, name: str, number: Number) -> list[float]:
    return [
        one.value
        for one in sku.numbers[name]
        if one.basis == "measured"
        and one.confidence != "low"
        and one.devices == number.devices
        and (one.method == number.method or name == "p2p")  # one link, whichever tool copied
    ]


def _top(number: Number) -> float:
    """The share of a physical bound: reached at the best, and a threshold so close to it cannot be met."""
    return 0.95 if number.basis == "threshold" else 1.0


def _near(value: float, share: float) -> tuple[float, float]:
    return value * (1 - share), value * (1 + share)


RULES: tuple[Callable[[Sku, str, Number], Iterator[Bound]], ...] = (
    _range, _dense, _specified, _reached, _bus, _floor, _agreement,
)  # fmt: skip
