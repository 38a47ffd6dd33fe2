"""What a host tells of the things that a manifest can list: by part, in the manifest's columns. Compares nothing.

Which source and key of the host's identity, which fact or measurement tells a column, stands here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from gpuburn.controller.collect import Collected
from gpuburn.controller.manifest import cells
from gpuburn.identity import Identity, is_junk
from gpuburn.manifest import COUNTED, Kind
from gpuburn.measurement import UNTOLD
from gpuburn.plan import HOST, Plan
from gpuburn.strict import Refused

Reading = Callable[[str], str]
Table = dict[str, tuple[tuple[str, ...], Reading]]
# Reading: the host's text to the column's value; "" where it says nothing


@dataclass(frozen=True, slots=True)
class Shown:
    """parts: {part: {column: value}}, of the host as a whole under "host". missing: {"part.column": why}.

    whole: kinds of which every part that is there has shown itself. blind: why DMI tables and the like cannot be seen
    (environment, privileges), "" if they can; virtual: parts beside the GPUs may be a hypervisor's.
    labels: what the board's own tables call a GPU's slot. by: {"part.column": what told it}, where several can; exact:
    "part.column" of what leaves no margin.
    """

    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)
    blind: str = ""
    virtual: bool = False
    gpus: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    exact: list[str] = field(default_factory=list)

    def of(self, kind: Kind) -> dict[str, dict[str, str]]:
        """The parts of one kind, by name."""
        return {name: values for name, values in self.parts.items() if name.startswith(PREFIX[kind])}

    def kept(self) -> str:
        """As one line of JSON: ten thousand hosts are held at once, and few are looked into."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def read(cls, kept: str) -> Shown:
        return cls(**json.loads(kept)) if kept else cls()


def _as_is(text: str) -> str:
    return " ".join(text.split())


def _mac(text: str) -> str:
    try:
        return cells.mac(text)
    except Refused:
        return ""


def _share(of: float) -> Reading:
    """A whole number of the host's units as the column's."""

    def read(text: str) -> str:
        digits = text.split()[0] if text.split() else ""
        return cells.amount(round(int(digits) / of, 3)) if digits.isdigit() else ""

    return read


PREFIX: dict[Kind, str] = {"gpu": "gpu", "nic": "nic.", "nvme": "disk.nvme", "dimm": "dimm.", "host": HOST}
# {column: keys of the part's source, the first that is there counts, and how it is read}
SOURCES: dict[Kind, Table] = {
    "nic": {
        "nic_mac": (("permanent",), _mac),  # burnt in: a bond's or an assigned address is nobody's number
        "nic_model": (("model",), _as_is), "nic_firmware": (("firmware",), _as_is),
    },
    "nvme": {
        "nvme_serial": (("serial",), _as_is),
        "nvme_model": (("model",), _as_is), "nvme_firmware": (("firmware",), _as_is),
        "nvme_size_gb": (("sectors",), _as_is),  # below
    },
    "dimm": {
        "dimm_serial": (("serial",), _as_is),
        "dimm_part": (("part",), _as_is), "dimm_size_gib": (("size",), _share(1024)),
    },
}  # fmt: skip
FACTS = {
    "identity.gpu_serial": "gpu_serial", "identity.gpu_uuid": "gpu_uuid", "identity.gpu_name": "gpu_model",
    "identity.gpu_vbios": "gpu_vbios", "identity.gpu_sku": "sku",
    "gpu_health.part": "gpu_part",
}  # fmt: skip
LOADED = ("gemm", "memory_bandwidth", "train", "serve")  # probes in which a GPU's link is up: at rest it falls back
LINK: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "telemetry.pcie_gen": ("pcie_gen", max), "telemetry.pcie_width": ("pcie_width", min),
}  # what came up, not what the card could hold  # fmt: skip
AT_REST = "its generation was not measured under load, and at rest it falls back"
MEASURED = {"telemetry.power_limit": "power_limit_w", "gpu_health.memory_total": "gpu_memory_gib"}  # in W, in GiB
DMI = {
    "product_serial": "dmi.product_serial", "board_serial": "dmi.board_serial", "chassis_serial": "dmi.chassis_serial",
    "cpu_model": "cpu.model",
}  # fmt: skip
LISTED: dict[Kind, str] = {
    "nic": "sys.class.net",
    "nvme": "sys.block",
}  # what the source names where it cannot be listed


def shown(collected: Collected) -> Shown:
    """What the host's evidence tells; of its looks at itself the last one."""
    plan, looks = collected.plan, collected.record.identities
    found = Shown(blind=_blind(plan), virtual=plan.environment != "bare_metal", gpus=plan.kind != "rehearsal")
    look = looks[-1] if looks else Identity(0.0, "", {}, {})
    for column, name in DMI.items():
        _put(found, look, HOST, column, (name,), _as_is, "")
    for kind in ("nic", "nvme", "dimm"):
        _sources(found, look, kind)
    _memory(found, look)
    _gpus(found, look, collected)
    _counts(found, look, collected)
    return found


def _blind(plan: Plan) -> str:
    """Why DMI tables cannot be seen, by the same rule as the judge of the host's identity; "" if they can."""
    if plan.privileges == "user" or plan.environment != "bare_metal":
        return f"not to be seen with {plan.privileges} privileges in environment {plan.environment}"
    return ""


def _put(
    found: Shown, look: Identity, part: str, column: str, keys: tuple[str, ...], read: Reading, source: str
) -> None:
    """One column of one part, from the first key that the host has; why it has none is kept."""
    names = [f"{source}.{key}" if source else key for key in keys]
    value = next((read(text) for name in names if (text := look.value(name))), "")
    if value:
        found.parts.setdefault(part, {})[column] = value
    elif why := next((look.missing[name] for name in names if name in look.missing), ""):
        found.missing[f"{part}.{column}"] = why


def _sources(found: Shown, look: Identity, kind: Kind) -> None:
    serials: set[str] = set()
    for source in sorted(name for name in look.sources if name.startswith(PREFIX[kind])):
        serial = look.value(f"{source}.serial")
        if kind == "nvme" and serial in serials:
            continue  # another namespace of the same disk
        serials |= {serial} - {""}
        found.parts[source] = {}
        for column, (keys, read) in SOURCES[kind].items():
            if column == "nvme_size_gb":
                _size(found, look, source)
            else:
                _put(found, look, source, column, keys, read, source)
    if kind == "dimm":
        for source, values in found.of("dimm").items():
            values["dimm_slot"] = source.removeprefix("dimm.")
        if found.of("dimm"):
            found.whole.append(kind)
    elif look.sources and LISTED[kind] not in look.missing:
        found.whole.append(kind)


def _size(found: Shown, look: Identity, source: str) -> None:
    """A disk's size in GB of 1e9 bytes: the kernel tells sectors of 512 bytes, whatever the disk's own are."""
    if (text := look.value(f"{source}.sectors")).isdigit():
        found.parts[source]["nvme_size_gb"] = cells.amount(round(int(text) * 512 / 1e9, 3))
    elif why := look.missing.get(f"{source}.sectors", ""):
        found.missing[f"{source}.nvme_size_gb"] = why


def _memory(found: Shown, look: Identity) -> None:
    """The modules' sum where every module tells its size, else what the kernel manages (kB of 1024 bytes)."""
    modules = [values.get("dimm_size_gib", "") for values in found.of("dimm").values()]
    if modules and all(modules):
        found.parts.setdefault(HOST, {})["memory_gib"] = cells.amount(sum(map(float, modules)))
        found.by[f"{HOST}.memory_gib"] = f"the sum of {len(modules)} memory module(s)"
        found.exact.append(f"{HOST}.memory_gib")
    else:
        _put(found, look, HOST, "memory_gib", ("memory.total",), _share(2**20), "")
        found.by[f"{HOST}.memory_gib"] = "MemTotal, what firmware and kernel leave"


def _gpus(found: Shown, look: Identity, collected: Collected) -> None:
    devices = {one.name: one for one in collected.plan.devices if one.gpu}
    for outcome in collected.outcomes:
        for fact in outcome.facts:
            if fact.name in FACTS and fact.subject in devices:
                _fact(found, fact.subject, FACTS[fact.name], fact.value)
    for m in (m for outcome in collected.outcomes for m in outcome.measurements):
        if m.name in MEASURED and m.subject in found.of("gpu"):  # one that says nothing of itself is not there
            mine, column = found.parts[m.subject], MEASURED[m.name]
            mine[column] = cells.amount(round(min(m.value, float(mine.get(column, m.value))), 1))
    for name, device in devices.items():
        if name in found.parts:
            if device.pci:
                found.parts[name]["gpu_slot"] = device.pci
                if label := look.value(f"pci.{device.pci}.slot"):
                    found.labels[name] = label
            _link(found, look, collected, name, f"pci.{device.pci}")


def _link(found: Shown, look: Identity, collected: Collected, name: str, source: str) -> None:
    """A GPU's PCIe link as it came up under load; without that, its lanes as PCI tells them, and no generation."""
    mine = found.parts[name]
    for outcome in (one for one in collected.outcomes if one.probe in LOADED):
        for m in (m for m in outcome.measurements if m.name in LINK and m.subject == name):
            column, worse = LINK[m.name]
            mine[column] = cells.amount(worse(m.value, float(mine.get(column, m.value))))
            found.by[f"{name}.{column}"] = "under load"
    if "pcie_gen" not in mine:
        found.missing[f"{name}.pcie_gen"] = AT_REST
    if "pcie_width" not in mine:
        _put(found, look, name, "pcie_width", ("current_link_width",), _share(1), source)
        found.by[f"{name}.pcie_width"] = "at rest"


def _fact(found: Shown, part: str, column: str, value: str) -> None:
    """What a GPU says of itself; a serial of filler is none."""
    mine = found.parts.setdefault(part, {})
    if value.startswith(UNTOLD) or is_junk(value):
        found.missing[f"{part}.{column}"] = value
    else:
        mine[column] = _as_is(value)


def _counts(found: Shown, look: Identity, collected: Collected) -> None:
    """How many there are of each kind; of GPUs as many as NVML sees."""
    host = found.parts.setdefault(HOST, {})
    measured = [m for outcome in collected.outcomes for m in outcome.measurements]
    count = next((m.value for m in measured if m.name == "identity.gpus"), None)
    if count is not None and found.gpus:
        host["gpu_count"] = cells.amount(count)
        if count == len(found.of("gpu")):
            found.whole.append("gpu")
    for column, kind in COUNTED.items():
        if kind != "gpu" and kind in found.whole:
            host[column] = str(len(found.of(kind)))
