"""Errors that the platform's firmware hands to the kernel (APEI), each printed as many lines: joined to one text.

Every line of one record begins with its number, {1}[Hardware Error]: (Linux, drivers/acpi/apei/ghes.c); which part it
is about, and its address, stand lines after how grave it is (drivers/firmware/efi/cper.c). What a text means stands in
kernel.yml.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpuburn.identity import Event
from gpuburn.kernel import ADDRESS

if TYPE_CHECKING:
    from gpuburn.agent.kernel_log import Record

LINE = re.compile(r"\{(?P<number>[0-9]{1,10})\}\[Hardware Error\]: {1,8}(?P<rest>.*)")
SEVERITY = re.compile(r"event severity: \w{1,20}")
DEVICE = re.compile(rf"device_id: {ADDRESS}")
SECTION = "section_type: "
SECTIONS = 16  # of one record


@dataclasses.dataclass(slots=True)
class _Lines:
    """One record as far as its lines have come. sections: what each is about, with its device's address."""

    number: str
    first: Record
    severity: str = ""
    sections: list[str] = dataclasses.field(default_factory=list)

    def add(self, line: str) -> None:
        if SEVERITY.fullmatch(line) and not self.severity:
            self.severity = line
        elif line.startswith(SECTION) and len(self.sections) < SECTIONS:
            self.sections.append(line[:80])
        elif DEVICE.fullmatch(line) and self.sections and DEVICE.search(self.sections[-1]) is None:
            self.sections[-1] += f"; {line}"

    def texts(self) -> list[str]:
        """One for each section; one that does not say how grave it is keeps its first line."""
        if not self.severity:
            return [self.first.text]
        head = f"{{{self.number}}}[Hardware Error]: {self.severity}"
        return [f"{head}; {one}" for one in self.sections] or [head]


class Firmware:
    """Joins over all looks at the log: what a look has of a record is told, and lines that come later add nothing."""

    def __init__(self) -> None:
        self._open: _Lines | None = None
        self._told = ""

    def joined(self, records: Iterable[Record | Event]) -> Iterator[Record | Event]:
        """The records of one look, those of the firmware joined; all others stay what they are."""
        for record in records:
            line = None if isinstance(record, Event) or record.facility else LINE.match(record.text)
            if line is None or isinstance(record, Event):
                yield record
                continue
            if self._open is None or self._open.number != line["number"]:
                yield from self._close()
                self._open = _Lines(line["number"], record)
            self._open.add(line["rest"].strip())
        yield from self._close()

    def _close(self) -> Iterator[Record]:
        one, self._open = self._open, None
        if one and (one.severity or one.number != self._told):
            self._told = one.number
            yield from (dataclasses.replace(one.first, text=text) for text in one.texts())
