"""An Ansible inventory made from a manifest: racks as groups, and per host what the list says of its place and GPUs."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import yaml

from gpuburn.controller.run import NAME
from gpuburn.manifest import Manifest, Ordered
from gpuburn.strict import Refused

GROUP = "new_racks"
HEAD = """---
# Made by `gpuburn inventory from`. To be added here or in group_vars: gpuburn_profiles (what the hosts are to be good
# for: training, inference or both), gpuburn_level, ansible_user, and ansible_host where a name does not resolve.
"""
PLACES = {"unit": "unit", "power_domain": "power_domain", "delivery": "delivery"}


def made(manifest: Manifest, source: str) -> str:
    """hosts.yml as text. Raises Refused where the list has no host that can be named as its group is not."""
    groups = _groups(dict.fromkeys(one.values["rack"] for one in manifest.hosts if one.values.get("rack")))
    racks: dict[str, dict[str, Any]] = {}
    loose: dict[str, dict[str, Any]] = {}
    for one in manifest.hosts:
        rack = one.values.get("rack", "")
        if not rack:
            loose[one.host] = variables(one)
            continue
        group = racks.setdefault(groups[rack], {"hosts": {}, "vars": {"gpuburn_rack": rack}})
        group["hosts"][one.host] = variables(one)
    taken = {GROUP, *racks} & {one.host for one in manifest.hosts}
    if taken:
        raise Refused(f"host {min(taken)!r} is named as a group is; wanted is another name in column host")
    ours: dict[str, Any] = {"vars": {"gpuburn_manifest": source}}
    ours |= {"hosts": loose} if loose else {}
    ours |= {"children": racks} if racks else {}
    text = yaml.safe_dump({"all": {"children": {GROUP: ours}}}, sort_keys=False, allow_unicode=True, width=120)
    return HEAD + text


def variables(one: Ordered) -> dict[str, Any]:
    """The host's gpuburn_ variables; what the list does not say is not there."""
    found: dict[str, Any] = {f"gpuburn_{name}": one.values[key] for key, name in PLACES.items() if key in one.values}
    if (delivery := found.get("gpuburn_delivery", "")) and not NAME.fullmatch(delivery):
        found["gpuburn_delivery"] = re.sub(r"[^A-Za-z0-9._-]+", "-", delivery).strip("-.") or "delivery"
    skus = one.said("sku")
    if len(skus) > 1:
        raise Refused(f"host {one.host}: {len(skus)} SKUs ({', '.join(sorted(skus))}); a host is tested as one of one")
    if skus:
        found["gpuburn_sku"] = skus.pop()
    if count := one.values.get("gpu_count", "") or str(len(one.of("gpu")) or ""):
        found["gpuburn_gpu_count"] = int(count)
    return found


def _groups(racks: Iterable[str]) -> dict[str, str]:
    """{rack: its group's name, as Ansible wants it}: rack A01 is rack_a01. A name that would be another rack's too, and
    one that has no Latin letter, gets the lowest number that is free."""
    plain = {rack: re.sub(r"[^a-z0-9]+", "_", rack.lower()).strip("_") for rack in racks}
    count = Counter(plain.values())
    found = {rack: f"rack_{name}" for rack, name in plain.items() if name and count[name] == 1}
    taken = {*found.values()}
    for rack, name in plain.items():
        if rack not in found:
            stem = f"rack_{name}_" if name else "rack_"
            found[rack] = next(one for at in itertools.count(1) if (one := f"{stem}{at}") not in taken)
            taken.add(found[rack])
    return found
