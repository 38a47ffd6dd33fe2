"""An Ansible inventory made from a manifest: racks as groups, and per host what the list says of its place and GPUs."""

from __future__ import annotations

import re
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
    """hosts.yml as text. Raises Refused where the list has no host that can be named, or two groups would be one."""
    racks: dict[str, dict[str, Any]] = {}
    loose: dict[str, dict[str, Any]] = {}
    for one in manifest.hosts:
        rack = one.values.get("rack", "")
        if not rack:
            loose[one.host] = variables(one)
            continue
        group = racks.setdefault(_group(rack), {"hosts": {}, "vars": {"gpuburn_rack": rack}})
        if group["vars"]["gpuburn_rack"] != rack:
            raise Refused(f"racks {group['vars']['gpuburn_rack']!r} and {rack!r} would be one group, {_group(rack)}")
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


def _group(rack: str) -> str:
    """A group's name as Ansible wants it: rack A01 is rack_a01."""
    return f"rack_{re.sub(r'[^a-z0-9]+', '_', rack.lower()).strip('_') or 'unnamed'}"
