"""The SKUs' tables as text for a terminal: what is known of a GPU model, by whom, and what it can serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuburn import sku
from gpuburn.sku import CONFIDENCE, Number, Sku

# The limit of ours that a number by the same method could serve: number's name (or its family), method.
SERVES = {
    ("gemm", "gemm sustained"): "gemm.tflops",
    ("triad", "babelstream triad"): "memory_bandwidth.triad",
    ("allreduce", "nccl-tests"): "allreduce.busbw",
}


def serves(name: str, number: Number) -> str:
    """Which `probe.metric` it could be a limit of, and what it may do there; "" where nothing of ours measures so."""
    about = SERVES.get((name.partition("_")[0], number.method), "")
    if not about or number.basis != "measured":
        return ""
    return f"{about}, may {dict(zip(CONFIDENCE, ('fail', 'warn', 'inform only'), strict=True))[number.confidence]}"


def listed() -> str:
    """All SKUs, one a line."""
    rows: list[tuple[str, ...]] = [("sku", "architecture", "memory", "PCI ids", "high", "medium", "low")]
    for name in sku.ids():
        one = sku.load(name)
        memory = one.number("memory")
        count = Counter[str](number.confidence for many in one.numbers.values() for number in many)
        told = f"{memory.value:g} {memory.unit}" if memory else "unknown"
        rows.append((name, one.architecture, told, ", ".join(one.pci_device_ids), *(str(count[c]) for c in CONFIDENCE)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def shown(name: str) -> str:
    """One SKU: what it is, then every number with its source below it."""
    one = sku.load(name)
    lines = [*_head(one)]
    for key, numbers in one.numbers.items():
        lines += ["", key]
        for number in numbers:
            lines += [*_number(key, number)]
    return "\n".join(lines)


def _head(one: Sku) -> Iterator[str]:
    yield f"{one.id}: {one.vendor} {one.architecture}, compute capability {one.compute_capability}, {one.form}"
    yield f"PCI device ids {', '.join(one.pci_device_ids)} ({one.pci_source})"
    yield f"names {', '.join(one.names)}"
    if one.pcie:
        yield f"PCIe Gen{one.pcie.gen} x{one.pcie.width}" + (f"; {one.pcie.note}" if one.pcie.note else "")
    if one.nvlink:
        links = f"{one.nvlink.links} links" if one.nvlink.links else "number of links not known"
        bridge = ", only with bridges" if one.nvlink.bridge else ""
        yield f"NVLink {one.nvlink.gen}, {links}{bridge}" + (f"; {one.nvlink.note}" if one.nvlink.note else "")
    if one.unsupported:
        yield f"no hardware for {', '.join(one.unsupported)}"
    if one.note:
        yield one.note


def _number(key: str, number: Number) -> Iterator[str]:
    devices = f" on {number.devices} GPUs" if number.devices else ""
    how = f", {number.method}{devices}" if number.method else ""
    yield f"  {number.value:g} {number.unit}  {number.basis}, {number.confidence}{how}"
    if number.note:
        yield f"      {number.note}"
    if about := serves(key, number):
        yield f"      for {about}"
    yield f"      {number.source}"
