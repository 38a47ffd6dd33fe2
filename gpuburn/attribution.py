"""To which step and which planned device an event belongs: by its time and its PCI address. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuburn.evidence import NVML_EVENTS
from gpuburn.identity import Event
from gpuburn.outcome import Outcome
from gpuburn.plan import HOST, Plan

BETWEEN = "between steps"
ADDRESS = re.compile(r"(?:PCI:)?([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.[0-7])?")


def address(text: str) -> tuple[int, int, int] | None:
    """Domain, bus and device of a PCI address as NVML, the driver or the kernel writes it; None for other text."""
    match = ADDRESS.fullmatch(text.strip())
    return (int(match[1], 16), int(match[2], 16), int(match[3], 16)) if match else None


def same(one: str, other: str) -> bool:
    """Whether two names are of one part, however its address is written."""
    return one == other or (address(one) is not None and address(one) == address(other))


class Attribution:
    """Where an event belongs, over the windows of the outcomes and the devices of the plan."""

    def __init__(self, plan: Plan, outcomes: Iterable[Outcome]) -> None:
        self._windows = [(one.started, one.started + one.seconds, one.step) for one in outcomes]
        self._devices = {at: one.name for one in plan.devices if (at := address(one.pci))}

    def step(self, event: Event) -> str:
        """The step during which it happened; "" between steps."""
        return next((step for start, end, step in self._windows if start <= event.at <= end), "")

    def subject(self, event: Event) -> str:
        """The planned device at that address, else the host: a bridge or a network card is no device of the plan."""
        at = address(event.about)
        return self._devices.get(at, HOST) if at else HOST

    def evidence(self, event: Event, events: str) -> str:
        """The file that shows it: what NVML told stands with its step, all else among the run's events."""
        step = self.step(event)
        return f"steps/{step}/{NVML_EVENTS}" if step and event.code.startswith("nvml.") else events

    def words(self, event: Event) -> str:
        """Where and when, for a message."""
        step = self.step(event)
        at = f"PCI {event.about}" if address(event.about) else event.about
        return f"{at}, {f'during step {step}' if step else BETWEEN}"
