"""Guards on the host's disk and on what the sampler wrote, however odd that is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuburn import evidence
from gpuburn.agent import guard
from gpuburn.agent.guard import Watch
from gpuburn.measurement import Fact, Reading
from gpuburn.plan import Guard

HOT = Guard("temperature", "C", "above it the card slows down", max=87.0)
FULL = Guard("disk_free", "GiB", "evidence needs room", min=1e9)
TIGHT = Guard("memory_available", "GiB", "the host would start to kill", min=2.0)


@pytest.fixture
def telemetry(tmp_path: Path) -> Path:
    return tmp_path / "telemetry.jsonl"


def watch(telemetry: Path, *guards: Guard) -> Watch:
    return Watch(list(guards), telemetry.parent, telemetry)


def line(metric: str, value: float, subject: str = "host") -> bytes:
    return evidence.dump(Reading(metric, value, subject=subject, at=1.0))


def test_a_full_disk_trips(telemetry):
    [trip] = watch(telemetry, FULL, HOT).trips()
    assert (trip.guard, trip.subject) == ("disk_free", "host")
    assert trip.why.startswith("disk_free of host was ") and trip.why.endswith("evidence needs room")
    assert "wanted is at least 1e+09" in trip.why


def test_temperature_and_memory_trip_for_their_subject_once_per_line(telemetry):
    telemetry.write_bytes(
        line("temperature", 87.0, "gpu0") + line("temperature", 87.5, "gpu1") + line("memory_available", 1.9)
    )
    one = watch(telemetry, HOT, TIGHT)
    assert [(trip.guard, trip.subject, trip.value) for trip in one.trips()] == [
        ("temperature", "gpu1", 87.5), ("memory_available", "host", 1.9),
    ]  # fmt: skip
    assert one.trips() == [], "lines are looked at once"


def test_a_torn_line_is_read_once_it_is_whole(telemetry):
    whole = line("temperature", 99.0, "gpu0")
    telemetry.write_bytes(whole[:20])
    one = watch(telemetry, HOT)
    assert one.trips() == []
    telemetry.write_bytes(whole)
    assert [trip.value for trip in one.trips()] == [99.0]


@pytest.mark.parametrize(
    "odd",
    [
        b"garbage\n", b"\xff\xfe\x00\n", b"[]\n", b"1\n", b"null\n", b'{"reading": 5}\n', b'{"reading": {}}\n', b"\n\n",
        b'{"reading": {"metric": "temperature", "value": NaN, "subject": "gpu0"}}\n', b"[" * 5000 + b"\n",
        b'{"reading": {"metric": "temperature", "value": "hot", "subject": "gpu0"}}\n',
        b'{"reading": {"metric": "temperature", "value": 1e999}}\n', b"x" * guard.CHUNK + b"\n",
        evidence.dump(Fact("temperature", "99")),
    ],
)  # fmt: skip
def test_what_is_odd_is_passed_over_and_the_next_line_counts(odd, telemetry):
    telemetry.write_bytes(odd + line("temperature", 99.0, "gpu0"))
    one = watch(telemetry, HOT)
    assert [trip.value for trip in (*one.trips(), *one.trips())] == [99.0]


@pytest.mark.parametrize("kind", ["missing", "pipe", "folder", "link"])
def test_what_is_no_file_is_not_read_and_holds_nobody(kind, telemetry, tmp_path):
    if kind == "pipe":
        os.mkfifo(telemetry)
    if kind == "folder":
        telemetry.mkdir()
    if kind == "link":
        (tmp_path / "other").write_bytes(line("temperature", 99.0, "gpu0"))
        telemetry.symlink_to(tmp_path / "other")
    assert watch(telemetry, HOT).trips() == []
