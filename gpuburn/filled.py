"""Parameters that the order decides and no profile can know: how many devices, and what their SKU does at best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuburn.plan import Kind, Step
from gpuburn.probe import Probe
from gpuburn.sku import Sku

FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "tf32": "tf32", "fp8": "fp8"}  # as a SKU has them


def doublings(count: int) -> list[int]:
    """How many devices work together in turn: 1, 2, 4 and so on, and at last all of them."""
    found = [1]
    while 2 * found[-1] < count:
        found.append(2 * found[-1])
    return [*found, count] if count > 1 else found


def peak(params: dict[str, Any], ordered: Sku | None) -> float:
    """TFLOP/s that the SKU's data sheet promises in the step's dtype, dense; 0 where nobody says."""
    number = ordered.number(f"peak_{FORMATS.get(params['dtype'], '')}") if ordered else None
    return number.value if number and number.unit == "TFLOP/s" else 0.0


WORDS: dict[str, Callable[[dict[str, Any], Sku | None, int], Any]] = {
    "doublings": lambda params, ordered, count: doublings(count),
    "peak": lambda params, ordered, count: peak(params, ordered),
}


def step(one: Step, probe: Probe, ordered: Sku | None, count: int, kind: Kind) -> Step:
    """The step with what the order says, where the profile left it to the order. A CPU has no SKU's peak."""
    sku = ordered if kind == "hardware" else None
    said = {name: WORDS[word](one.params, sku, count) for name, word in probe.filled.items()}
    open_ = {name: value for name, value in said.items() if one.params[name] == probe.parameters[name].default}
    return replace(one, params={**one.params, **open_}) if open_ else one
