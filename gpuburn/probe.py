"""A probe is a generator of readings, facts and work. Here one is declared, checked and found; none is run.

Probe files import without torch (they import it in their bodies), so that the controller knows every declaration.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, Union

from gpuburn.measurement import NOWHERE, Fact, Metric, Observed, Point, Reading, Work
from gpuburn.strict import Refused, known

Scope = Literal["device", "ranks", "host", "group"]
Taken = Union[Reading, Fact, Work]  # noqa: UP007  (evaluated at run time, also on Python 3.10)
TYPES: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "bool": bool,
}
PLACE = "gpuburn.agent.probes"
Stores = Callable[[dict[str, Any], int], int]


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe promises: everything about it that can be known without running it.

    work: which counters of Work must be positive before a subject passes.
    smoke: parameters small enough for any CPU, so that one test covers every probe there will be.
    needs: what the device must be able to do (for example "fp8"), decided from the SKU.
    pulses: its load comes and goes faster than the sampler's passes, so that power is looked at in between.
    least_devices: how many devices it takes at least; a plan with fewer leaves the step out.
    filled: parameters that the plan fills in from the order where a profile leaves them at their default (filled.py).
    reads: what only root can read of the host, read by the supervisor just before the step (agent/privileged.py).
    stores: bytes that a step writes in all to the storage that the site names, from its parameters and the number of
        devices; None of a probe that does not test that storage (storage.py).
    """

    name: str
    doc: str
    scope: Scope
    revision: int
    work: tuple[str, ...]
    needs: tuple[str, ...]
    smoke: dict[str, Any]
    run: Callable[..., Iterator[Taken]]
    metrics: dict[str, Metric] = field(default_factory=dict)
    facts: dict[str, Observed] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    least_devices: int = 1
    pulses: bool = False
    filled: dict[str, str] = field(default_factory=dict)
    stores: Stores | None = None

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Parameters that a plan may set: all but the first, which is the device or the host."""
        return dict(list(inspect.signature(self.run).parameters.items())[1:])

    @property
    def promises(self) -> dict[str, Metric | Observed]:
        """All metrics and facts by name."""
        return {**self.metrics, **self.facts}

    def settled(self, params: dict[str, Any], where: str) -> dict[str, Any]:
        """All parameters with their values, defaults filled in. Unknown names and wrong types are refused."""
        declared = self.parameters
        for name, value in params.items():
            known(name, declared, f"{where}: parameter of {self.name}")
            kind = str(declared[name].annotation)
            if not _fits(value, kind):
                raise Refused(f"{where}: {self.name}.{name} is {value!r}, wanted is {kind}")
            if value != declared[name].default and not _sound(value, kind):
                raise Refused(f"{where}: {self.name}.{name} is {value!r}, wanted are finite numbers, sizes from 1 up")
        return {name: params.get(name, one.default) for name, one in declared.items()}

    def points(self, promise: Metric | Observed, params: dict[str, Any]) -> list[Point]:
        """Every point at which the promise must be kept under these (settled) parameters."""
        if not promise.at:
            return [NOWHERE]
        keys = sorted(promise.at)
        return [Point.of(**dict(zip(keys, row))) for row in product(*(params[promise.at[key]] for key in keys))]


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("list["):
        return isinstance(value, list) and all(_fits(one, kind[5:-1]) for one in value)
    return isinstance(value, TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))


def _sound(value: Any, kind: str) -> bool:
    """Sizes and counts are at least one, times and shares finite and not negative; an empty sweep shows nothing."""
    if kind.startswith("list["):
        return bool(value) and all(_sound(one, kind[5:-1]) for one in value)
    if kind == "int":
        return bool(value >= 1)
    return kind != "float" or (math.isfinite(value) and value >= 0)


REGISTRY: dict[str, Probe] = {}


def probe(
    *,
    scope: Scope,
    smoke: dict[str, Any],
    revision: int = 1,
    work: tuple[str, ...] = ("iterations",),
    needs: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    least_devices: int = 1,
    pulses: bool = False,
    filled: dict[str, str] | None = None,
    stores: Stores | None = None,
    **promises: Metric | Observed,
) -> Callable[[Callable[..., Iterator[Taken]]], Callable[..., Iterator[Taken]]]:
    """Declare the decorated generator a probe; its name is the function's."""

    def register(run: Callable[..., Iterator[Taken]]) -> Callable[..., Iterator[Taken]]:
        name = run.__name__
        if name in REGISTRY and REGISTRY[name].run.__module__ != run.__module__:
            raise Refused(f"two probes named {name!r}")
        metrics = {key: one for key, one in promises.items() if isinstance(one, Metric)}
        facts = {key: one for key, one in promises.items() if isinstance(one, Observed)}
        for key, one in metrics.items():
            if one.unless:
                known(one.unless, facts, f"probe {name!r}: {key}: unless")
        doc = inspect.getdoc(run) or ""
        if "Exercises:" not in doc or "Does not exercise:" not in doc:
            raise Refused(f"probe {name!r}: its docstring must say what it exercises and what it does not")
        REGISTRY[name] = Probe(
            name, doc, scope, revision, work, needs, smoke, run, metrics, facts, reads, least_devices, pulses,
            filled or {}, stores,
        )  # fmt: skip
        REGISTRY[name].settled(smoke, f"probe {name} smoke")
        return run

    return register


def discover() -> dict[str, Probe]:
    """Every probe there is: one file each in agent/probes, found by name."""
    for module in pkgutil.iter_modules(importlib.import_module(PLACE).__path__):
        importlib.import_module(f"{PLACE}.{module.name}")
    return REGISTRY
