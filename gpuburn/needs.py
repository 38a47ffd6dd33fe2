"""What a step needs of the device that does its work, or of the site: decided from SKU, kind of run and inventory.

What lacks it leaves the step out, with the reason; silence of a host never does.
"""

from __future__ import annotations

from gpuburn.plan import Kind
from gpuburn.sku import Sku

DTYPES = ("bf16", "tf32", "fp8")  # number formats that not every GPU has hardware for (a SKU's `unsupported`)
ON_CPU = ("bf16",)  # of them, what the CPU of a rehearsal or simulation computes too, slowly
POWER = "power_budget"  # that the site lets the power domain be stepped
NEEDS = (*DTYPES, POWER)


def lacking(need: str, kind: Kind, ordered: Sku | None, power: str) -> str:
    """Why a need is not met; "" if it is. power: why the site gives no budget for power steps, "" if it does."""
    if need == POWER:
        return power if kind == "hardware" else ""  # a CPU draws what it always draws
    if kind != "hardware":
        return "" if need in ON_CPU else f"needs {need}, which the CPU that does the work of a {kind} run has not"
    if ordered and need in ordered.unsupported:
        has = f"{ordered.id} (compute capability {ordered.compute_capability})"
        return f"needs {need}, which {has} has no hardware for"
    return ""
