"""Network interfaces and InfiniBand ports as the kernel shows them (sysfs-class-net, sysfs-class-infiniband)."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpuburn.agent import vpd
from gpuburn.agent.look import Look
from gpuburn.identity import Identity

NET, INFINIBAND = "/sys/class/net", "/sys/class/infiniband"
COUNTERS = ("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors")
PORT = ("state", "phys_state", "rate", "link_layer")


def nics(seen: Look) -> list[str]:
    """Network interfaces that have a device behind them: no loopback, bridge, bond or veth."""
    return [name for name in seen.names(NET) if (seen.root / f"sys/class/net/{name}/device").exists()]


def tell(seen: Look) -> None:
    """One source nic.<name> for each interface, and ib.<device>.<port> for each RDMA port (absent: no RDMA device).

    Without the ways to NVSwitches: the board's own, of no network.
    """
    inner = bridges(seen)["addresses"]
    for name in nics(seen):
        if seen.target(f"{NET}/{name}/device") not in inner:
            _nic(seen, name)
    for device in seen.within(INFINIBAND):
        if seen.target(f"{INFINIBAND}/{device}/device") not in inner:
            for port in seen.within(f"{INFINIBAND}/{device}/ports"):
                _port(seen, device, port)


def bridges(seen: Look) -> dict[str, Any]:
    """addresses: PCI addresses of the RDMA devices behind which NVSwitches sit. Only root can read who they are."""
    devices = [f"{INFINIBAND}/{name}/device" for name in seen.within(INFINIBAND)]
    return {"addresses": [seen.target(one) for one in devices if vpd.manages_switches(seen, one)]}


def without(told: Identity, addresses: list[str]) -> Identity:
    """What was told but for the adapters at these addresses, for whoever could not know them."""
    sources = {
        name: values
        for name, values in told.sources.items()
        if not name.startswith(("nic.", "ib.")) or values.get("pci", "") not in addresses
    }
    return dataclasses.replace(told, sources=sources)


def _nic(seen: Look, name: str) -> None:
    source, folder = f"nic.{name}", f"{NET}/{name}"
    seen.read(source, "mac", f"{folder}/address")
    _permanent(seen, source, folder)
    seen.read(source, "speed", f"{folder}/speed")  # Mbit/s; the kernel answers EINVAL or -1 where there is no link
    if seen.sources.get(source, {}).get("speed", "").startswith("-"):
        seen.missing[f"{source}.speed"] = f"no link: {seen.sources[source].pop('speed')}"
    seen.said(source, "driver", seen.target(f"{folder}/device/driver"), "no driver is bound")
    seen.said(source, "pci", seen.target(f"{folder}/device"), "no device link")
    vpd.tell(seen, source, f"{folder}/device")
    for key in ("duplex", "operstate", "carrier_changes"):
        seen.read(source, key, f"{folder}/{key}", filler=False)
    hcas = seen.within(f"{folder}/device/infiniband")
    for key, file in (("firmware", "fw_ver"), ("board", "board_id")):
        if hcas:
            seen.read(source, key, f"{folder}/device/infiniband/{hcas[0]}/{file}")
        else:
            seen.missing[f"{source}.{key}"] = "the kernel's files tell it of RDMA devices alone"


def _permanent(seen: Look, source: str, folder: str) -> None:
    """The address that was burnt in: a bond's member wears another one, and a made-up one is nobody's number.

    addr_assign_type 0 is NET_ADDR_PERM.
    """
    bond = seen.word(f"{folder}/bonding_slave/perm_hwaddr")
    assigned = seen.word(f"{folder}/addr_assign_type")
    address = bond or (seen.sources.get(source, {}).get("mac", "") if assigned == "0" else "")
    gap = "the address was assigned, not burnt in" if assigned else "the kernel does not say whether it is burnt in"
    seen.said(source, "permanent", address, gap)


def _port(seen: Look, device: str, port: str) -> None:
    source, folder = f"ib.{device}.{port}", f"{INFINIBAND}/{device}"
    for key in PORT:
        seen.read(source, key, f"{folder}/ports/{port}/{key}", filler=False)
    seen.read(source, "guid", f"{folder}/node_guid")
    seen.said(source, "pci", seen.target(f"{folder}/device"), "no device link")
    for key in COUNTERS:
        seen.read(source, key, f"{folder}/ports/{port}/counters/{key}", filler=False)
