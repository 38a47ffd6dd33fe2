"""A manifest: what was ordered, per host, as the vendor's list says; and what comes of comparing a host with it. Pure.

Reading a vendor's file, and looking at what a host tells of itself, are the controller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import Literal

from gpuburn import strict

SCHEMA: Literal["gpuburn/manifest/1"] = "gpuburn/manifest/1"
Kind = Literal["place", "host", "gpu", "nic", "nvme", "dimm"]
Form = Literal["name", "text", "sku", "serial", "mac", "slot", "count", "number", "lanes"]
Outcome = Literal["match", "mismatch", "missing", "unexpected", "not_comparable", "not_in_manifest"]
KINDS: tuple[Kind, ...] = ("gpu", "nic", "nvme", "dimm")  # of parts
EACH = ("gpu", "dimm")  # a model or size without a part's number is of every part; boot disks and onboard ports differ


@dataclass(frozen=True, slots=True)
class Column:
    """of: what it is about. identifies: it tells one part from another. aliases: other headings that vendors use.

    shares: what is there may be from this to that share of what was ordered. unique: once in the whole file.
    """

    of: Kind
    form: Form
    doc: str
    aliases: tuple[str, ...] = ()
    identifies: bool = False
    unique: bool = False
    shares: tuple[float, float] = (1.0, 1.0)


def _part(of: Kind, form: Form, doc: str, *aliases: str, unique: bool = True) -> Column:
    return Column(of, form, doc, aliases, identifies=True, unique=unique)


MARKED = (0.97, 1.01)  # a GPU's ECC and a disk's spare area stand between the label and what can be used
MANAGED = (0.92, 1.0)  # firmware and the kernel's tables keep up to 8 % of MemTotal; the modules' own sum is exact

COLUMNS: dict[str, Column] = {
    "host": Column("place", "name", "the host's name in the inventory", ("hostname", "node", "node name", "主机名")),
    "rack": Column("place", "text", "rack", ("rack name", "rack id", "cabinet", "机柜")),
    "unit": Column("place", "text", "rack unit", ("u", "rack unit", "u position")),
    "power_domain": Column("place", "text", "feed, PDU or busway", ("pdu", "feed", "busway")),
    "delivery": Column("place", "text", "order or lot", ("po", "po number", "order", "purchase order", "lot")),
    "product_serial": Column(
        "host", "serial", "serial of the system (DMI)",
        ("system serial", "server serial", "server sn", "system sn", "服务器序列号"), unique=True,
    ),
    "board_serial": Column(
        "host", "serial", "serial of the main board (DMI)", ("motherboard serial", "motherboard sn"), unique=True
    ),
    "chassis_serial": Column(
        "host", "serial", "serial of the chassis (DMI), which may hold several hosts", ("chassis sn", "机箱序列号")
    ),
    "cpu_model": Column("host", "text", "the processor's name for itself", ("cpu", "processor", "cpu type")),
    "memory_gib": Column(
        "host", "number", "memory in GiB, as the modules' sum", ("memory", "ram", "ram gib", "memory size gib"),
        shares=MANAGED,
    ),
    "gpu_count": Column("host", "count", "GPUs", ("gpus", "gpu qty", "gpu quantity", "gpu number", "gpu数量")),
    "nic_count": Column("host", "count", "network interfaces with a device behind them", ("nics", "nic qty")),
    "nvme_count": Column("host", "count", "NVMe disks", ("nvmes", "nvme qty", "ssd count")),
    "dimm_count": Column("host", "count", "memory modules", ("dimms", "dimm qty")),
    "sku": Column("gpu", "sku", "the GPU model, by its name in `gpuburn sku list`", ("gpu sku", "gpuburn sku")),
    "gpu_model": Column("gpu", "text", "the GPU's name for itself (NVML)", ("gpu", "gpu name", "gpu type", "gpu型号")),
    "gpu_slot": _part(
        "gpu", "slot", "PCI address, gpuburn's name (gpu0: the first in PCI order), or a label", "gpu position",
        unique=False,
    ),
    "gpu_serial": _part("gpu", "serial", "the board's serial (NVML)", "gpu sn", "gpu serial number", "gpu序列号"),
    "gpu_uuid": _part("gpu", "serial", "the GPU's UUID (NVML)", "gpu id"),
    "gpu_part": Column("gpu", "text", "the board's part number", ("gpu pn", "gpu part number", "gpu p/n")),
    "gpu_vbios": Column("gpu", "text", "VBIOS version", ("vbios", "vbios version", "gpu firmware")),
    "gpu_memory_gib": Column(
        "gpu", "number", "memory of one GPU in GiB (NVML's total)", ("gpu memory", "vram gib"), shares=MARKED
    ),
    "pcie_gen": Column(
        "gpu", "lanes", "PCIe generation of the GPU's link under load", ("pcie generation", "gpu pcie gen")
    ),
    "pcie_width": Column("gpu", "lanes", "PCIe lanes of the GPU's link under load", ("pcie lanes", "gpu pcie width")),
    "power_limit_w": Column(
        "gpu", "number", "power limit in force, in W", ("power limit", "tdp", "tdp w", "tgp w"), shares=(0.998, 1.002)
    ),
    "nic_mac": _part("nic", "mac", "an interface's own MAC address", "mac", "mac address", "nic mac address"),
    "nic_model": Column("nic", "text", "the adapter's model", ("nic", "nic name", "nic type")),
    "nic_firmware": Column("nic", "text", "the adapter's firmware", ("nic fw", "nic firmware version")),
    "nvme_serial": _part("nvme", "serial", "a disk's serial", "nvme sn", "ssd serial", "ssd sn"),
    "nvme_model": Column("nvme", "text", "a disk's model", ("ssd model",)),
    "nvme_firmware": Column("nvme", "text", "a disk's firmware", ("nvme fw", "ssd firmware", "ssd fw")),
    "nvme_size_gb": Column("nvme", "number", "a disk's size in GB (1e9 bytes)", ("nvme size", "ssd size gb"),
                           shares=(0.99, 1.01)),
    "dimm_slot": _part("dimm", "slot", "a module's place, as the board names it", "dimm locator", unique=False),
    "dimm_serial": _part("dimm", "serial", "a module's serial", "dimm sn", "memory sn"),
    "dimm_part": Column("dimm", "text", "a module's part number", ("dimm pn", "dimm part number")),
    "dimm_size_gib": Column("dimm", "number", "a module's size in GiB", ("dimm size",)),
}  # fmt: skip
COUNTED: dict[str, Kind] = {"gpu_count": "gpu", "nic_count": "nic", "nvme_count": "nvme", "dimm_count": "dimm"}
UNIT = re.compile(r"[Uu]?\s*0*(\d+)")
KEYS = (("host",), ("rack", "unit"), ("product_serial",), ("chassis_serial",))  # what names a row's host, first wins


def about(column: str) -> str:
    """What a finding on this column is about."""
    return f"manifest.{column}"


ABOUTS = frozenset({*map(about, COLUMNS), about("host")})


@dataclass(frozen=True, slots=True)
class Part:
    """One ordered part of a host. values: {column: value in its canonical form}."""

    kind: Kind
    values: dict[str, str]

    def names(self) -> str:
        """The part by its own numbers, for a message."""
        return ", ".join(value for name, value in self.values.items() if COLUMNS[name].identifies)


@dataclass(frozen=True, slots=True)
class Ordered:
    """What was ordered of one host. values: of the host, and of every part of a kind (see EACH); parts: the others."""

    host: str
    values: dict[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Part]:
        return [part for part in self.parts if part.kind == kind]

    def said(self, column: str) -> set[str]:
        """Every value that the manifest has for this column."""
        own = {self.values[column]} if column in self.values else set()
        return own | {part.values[column] for part in self.parts if column in part.values}

    def columns(self) -> set[str]:
        """Every column that the manifest has a value of."""
        return set(self.values).union(*(part.values for part in self.parts))

    def every(self, kind: Kind) -> dict[str, str]:
        """What holds for every part of a kind."""
        return {name: value for name, value in self.values.items() if COLUMNS[name].of == kind}


@dataclass(frozen=True, slots=True)
class Amendment:
    """A part that was replaced after the list was written: a named person's word. date: YYYY-MM-DD."""

    old: str
    new: str
    by: str
    reason: str
    date: str

    def __post_init__(self) -> None:
        for name in ("old", "new", "by", "reason", "date"):
            if not str(getattr(self, name)).strip():
                raise strict.Refused(f"{name!r} is empty")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Hosts and their parts in one order, whatever the file's. amended: what was replaced in it since."""

    schema: Literal["gpuburn/manifest/1"]
    hosts: list[Ordered]
    amended: list[Amendment] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """SHA-256 of what it says, however the file is laid out."""
        return strict.digest(self.encoded())

    def encoded(self) -> bytes:
        """The bytes of strict.encode, five times as fast: a list has a hundred thousand parts."""
        rest = strict.encode(Manifest(self.schema, [], self.amended))
        hosts = ",\n".join(map(_written, self.hosts))
        return rest.replace(b'"hosts": []', f'"hosts": [\n{hosts}\n ]'.encode()) if hosts else rest


def place(rack: str, unit: str) -> tuple[str, str]:
    """A place as two lists write it alike: case does not count, and U01, u1 and 1 are one unit."""
    number = UNIT.fullmatch(unit.strip())
    return " ".join(rack.split()).casefold(), number[1] if number else " ".join(unit.split()).casefold()


class Lookup:
    """The hosts of a manifest by name and by place: ten thousand are asked for one by one."""

    def __init__(self, manifest: Manifest) -> None:
        self._named = {one.host: one for one in manifest.hosts}
        self._placed: dict[tuple[str, str], list[Ordered]] = {}
        for one in manifest.hosts:
            at = place(one.values.get("rack", ""), one.values.get("unit", ""))
            self._placed.setdefault(at, []).append(one)

    def host(self, name: str, rack: str = "", unit: str = "") -> Ordered | None:
        """What was ordered of a host: by its name, else by its place, if that is one host's alone."""
        there = self._placed.get(place(rack, unit), []) if rack and unit else []
        return self._named.get(name) or (there[0] if len(there) == 1 else None)


@dataclass(frozen=True, slots=True)
class Item:
    """One ordered item against what is there. subject: the part of the host, "host" where none is known.

    seeable: whether the host could have shown it in its environment, with the privileges of its run. by: which of the
    host's sources told it, "" where a column has only one.
    """

    outcome: Outcome
    column: str
    why: str
    ordered: str = ""
    there: str = ""
    subject: str = "host"
    seeable: bool = True
    by: str = ""

    @property
    def extra(self) -> bool:
        """A port more than the list names: lists name the fast ports and leave out those on the board."""
        return self.outcome == "unexpected" and COLUMNS[self.column].of == "nic"

    @property
    def told(self) -> str:
        """What is there, and what told it."""
        return f"{self.there} ({self.by})" if self.by else self.there


def _written(one: Ordered) -> str:
    """A host as it stands in the canonical bytes of its manifest, keys in their order, two spaces in."""
    head = f'  {{\n   "host": {quoted(one.host)},\n   "parts": ['
    parts = [f'    {{\n     "kind": "{p.kind}",\n     "values": {_object(p.values, 5)}\n    }}' for p in one.parts]
    listed = "\n" + ",\n".join(parts) + "\n   " if parts else ""
    return f'{head}{listed}],\n   "values": {_object(one.values, 3)}\n  }}'


def _object(values: dict[str, str], depth: int) -> str:
    pad = "\n" + " " * depth
    inner = f",{pad} ".join(f"{quoted(name)}: {quoted(value)}" for name, value in sorted(values.items()))
    return f"{{{pad} {inner}{pad}}}" if values else "{}"


def settled(hosts: Iterable[Ordered], amended: Iterable[Amendment] = ()) -> Manifest:
    """A manifest in its one order."""
    return Manifest(SCHEMA, sorted((_sorted(one) for one in hosts), key=lambda one: one.host), [*amended])


def _sorted(one: Ordered) -> Ordered:
    parts = sorted(one.parts, key=lambda part: (part.kind, sorted(part.values.items())))
    return Ordered(one.host, dict(sorted(one.values.items())), parts)


def identities(of: Ordered) -> Iterator[tuple[str, str]]:
    """(column, value) of every number that one host's parts and the host itself are told by."""
    for values in (of.values, *(part.values for part in of.parts)):
        yield from ((name, value) for name, value in values.items() if COLUMNS[name].form in ("serial", "mac"))
