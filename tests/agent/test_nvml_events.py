"""What NVML tells of itself: through the real pynvml over the library of a scenario, and read back strictly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuburn import evidence, run_folder, strict
from gpuburn.agent import nvml
from gpuburn.agent.flood import EACH_XID
from gpuburn.agent.nvml_events import NvmlEvents
from gpuburn.events import NVML_ABSENT, NVML_DBE, NVML_LOST, NVML_MORE, NVML_UNREADABLE, NVML_XID
from gpuburn.identity import Event
from gpuburn.plan import Device
from tests.fakes.nvml.build import HEALTHY, SOURCES, environment, library

ROOT = Path(__file__).parents[2]
PLANNED = [Device("gpu0", "cuda", pci="0000:18:00.0"), Device("gpu1", "cuda", pci="0000:2a:00.0")]
# Each argument after the folder and the devices is the scenario of one pass.
SAMPLER = """
import json, os, pathlib, sys; from gpuburn import plan, strict
from gpuburn.agent import nvml; from gpuburn.agent.nvml_events import NvmlEvents
devices = strict.build(list[plan.Device], json.loads(sys.argv[2]), "devices")
with nvml.Nvml() as library, NvmlEvents(pathlib.Path(sys.argv[1]), devices, library) as events:
    for scenario in sys.argv[3:]:
        pathlib.Path(os.environ["GPUBURN_FAKE_NVML"]).write_text(scenario)
        events.look()
"""
compiled = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler for the fake libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return library(tmp_path_factory.mktemp("nvml_events"))


@pytest.fixture
def heard(built, tmp_path):
    """(code, about, text) of all that a sampler keeps over passes under these scenarios."""
    pytest.importorskip("pynvml")
    folder = tmp_path / "steps" / "gemm"
    folder.mkdir(parents=True)

    def listen(*scenarios, planned=PLANNED, env=None):
        given = json.dumps(strict.plain(planned))
        command = [sys.executable, "-c", SAMPLER, str(folder), given, *scenarios]
        subprocess.run(command, check=True, cwd=ROOT, env={**environment(built, tmp_path / "scenario"), **(env or {})})
        return [(one.code, one.about, one.text) for one in run_folder.nvml_events(tmp_path)]

    return listen


@compiled
def test_an_xid_is_an_event_of_its_device_at_the_pass_after_it_and_only_once(heard):
    told = HEALTHY + "1 xid 79\n"
    assert heard(HEALTHY, told, told, told + "0 xid 48\n0 dbe 1\n") == [
        (NVML_XID, "0000:2a:00.0", "Xid 79, told by NVML"),
        (NVML_XID, "0000:18:00.0", "Xid 48, told by NVML"),
        (NVML_DBE, "0000:18:00.0", "an uncorrected memory error (double bit), told by NVML"),
    ]


@compiled
def test_calm_gpus_leave_no_file(heard, tmp_path):
    assert heard(HEALTHY, HEALTHY) == []
    assert not (tmp_path / "steps/gemm" / evidence.NVML_EVENTS).exists()


@compiled
def test_cpus_are_never_asked(heard):
    assert heard("library init !9\n", planned=[Device("cpu0", "cpu")]) == []


@compiled
@pytest.mark.parametrize(("line", "about", "why"), [
    ("library init !9\n", "host", "NVML tells no events: Driver Not Loaded"),
    ("library events 3\n", "host", "NVML tells no events: Not Supported"),
    ("0 events 4\n", "0000:18:00.0", "NVML tells no events of gpu0: Insufficient Permissions"),
    ("0 event_types 2\n", "0000:18:00.0", "NVML tells no events of gpu0: it supports no event of an Xid"),
])  # fmt: skip
def test_why_nothing_is_told_is_an_event_once_and_a_neighbour_is_still_heard(heard, line, about, why):
    events = heard(line + HEALTHY, line + HEALTHY, line + HEALTHY + "1 xid 31\n")
    reason = [one for one in events if one[0] == NVML_ABSENT]
    assert [(one[1], one[2].lower()) for one in reason] == [(about, why.lower())]
    assert ((NVML_XID, "0000:2a:00.0", "Xid 31, told by NVML") in events) == (about != "host")


@compiled
def test_an_old_driver_without_these_functions_is_said(heard, tmp_path):
    old = tmp_path / "old" / "libnvidia-ml.so.1"
    old.parent.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-DWITHOUT_EVENTS", "-o", str(old), *map(str, SOURCES)], check=True)
    events = heard(HEALTHY, HEALTHY, env={"LD_LIBRARY_PATH": str(old.parent)})
    assert events == [(NVML_ABSENT, "host", "NVML tells no events: Function Not Found")]


@compiled
def test_a_planned_gpu_that_nvml_does_not_see_is_said(heard):
    gone = Device("gpu2", "cuda", pci="0000:99:00.0")
    said = "NVML tells no events of gpu2: NVML does not see it"
    assert heard(HEALTHY, planned=[gone]) == [(NVML_ABSENT, "0000:99:00.0", said)]


@compiled
def test_a_gpu_with_xids_only_is_asked_for_those_only(heard):
    line = "0 event_types 8\n"
    assert heard(line + HEALTHY, line + HEALTHY + "0 dbe 1\n0 xid 13\n") == [
        (NVML_XID, "0000:18:00.0", "Xid 13, told by NVML")
    ]


@compiled
def test_a_library_that_stops_telling_is_said_once_and_heard_again(heard):
    lost = "library wait 15\n" + HEALTHY
    assert heard(HEALTHY, lost, lost, HEALTHY + "0 xid 79\n") == [
        (NVML_LOST, "host", "NVML stopped telling events: GPU is lost"),
        (NVML_XID, "0000:18:00.0", "Xid 79, told by NVML"),
    ]


@compiled
def test_a_driver_that_comes_up_later_is_followed_from_then_on(heard):
    events = heard("library init !9\n" + HEALTHY, HEALTHY, HEALTHY + "0 xid 79\n")
    assert [one[0] for one in events] == [NVML_ABSENT, NVML_XID]


@compiled
@pytest.mark.parametrize(("passes", "kept"), [(1, 64), (20, EACH_XID + 1)])
def test_a_flood_is_bounded_in_a_pass_and_in_all(heard, passes, kept):
    flood = HEALTHY + "0 xid 13\n" * 1200
    assert len(heard(*[flood] * passes)) == kept


@compiled
def test_a_flood_of_one_xid_hides_no_other(heard):
    flood = HEALTHY + "0 xid 31\n" * 190
    told = heard(*[flood] * 3, flood + "1 xid 79\n")
    assert told[-2:] == [
        (NVML_MORE, NVML_XID, "more than 100 of 0000:18:00.0 Xid 31; the others are not listed"),
        (NVML_XID, "0000:2a:00.0", "Xid 79, told by NVML"),
    ]


def test_all_that_a_step_may_list_is_read_back(tmp_path):
    """Of every weight and more than are listed: the file stays below what is read of one."""
    folder = tmp_path / "steps" / "gemm"
    folder.mkdir(parents=True)
    events = NvmlEvents(folder, [], nvml.Nvml())
    for number in (79, 31, 8):
        for bus in range(30):
            for _ in range(EACH_XID + 1):
                events._keep(NVML_XID, f"0000:{bus:02x}:00.0", f"Xid {number}, told by NVML")
    found = run_folder.nvml_events(tmp_path)
    assert len(found) <= run_folder.NVML_LISTED and NVML_UNREADABLE not in {one.code for one in found}
    assert sum(one.code == NVML_LOST for one in found) == 2


def kept(folder: Path, *events: Event, raw: bytes = b"") -> list[Event]:
    path = folder / "steps" / "gemm" / evidence.NVML_EVENTS
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(strict.line(one) for one in events) + raw)
    return run_folder.record(folder).events


GOOD = Event(NVML_XID, 5.0, "0000:18:00.0", "Xid 79, told by NVML")


def test_what_nvml_told_is_part_of_the_record(tmp_path):
    assert kept(tmp_path, GOOD) == [GOOD]


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    assert kept(tmp_path, GOOD, raw=b'{"code":"nvml') == [GOOD]


@pytest.mark.parametrize(("events", "raw", "why"), [
    ([Event("kernel.xid", 5.0, "0000:18:00.0", "Xid 79")], b"", "unknown 'kernel.xid'"),
    ([Event(NVML_XID, 5.0, "gpu0", "Xid 79")], b"", "an event about 'gpu0'"),
    ([Event(NVML_XID, 5.0, "host", "x" * 301)], b"", "too long a text"),
    ([GOOD] * 1001, b"", "1001 events, at most 1000 are read"),
    ([], b"[]\n", "nvml_events.jsonl:1"),
    ([], b"not JSON\n", "not strict JSON"),
])  # fmt: skip
def test_a_file_that_a_worker_spoilt_is_said_and_nothing_of_it_is_taken(tmp_path, events, raw, why):
    [one] = kept(tmp_path, *events, raw=raw)
    assert one.code == NVML_UNREADABLE and why in one.text
    assert "steps/gemm/nvml_events.jsonl" in one.text and str(tmp_path) not in one.text


def test_a_link_in_its_place_is_said_alike_on_host_and_controller(tmp_path):
    texts = []
    for name in ("host", "controller"):
        path = tmp_path / name / "steps" / "gemm" / evidence.NVML_EVENTS
        path.parent.mkdir(parents=True)
        (tmp_path / "elsewhere").write_bytes(strict.line(GOOD))
        path.symlink_to(tmp_path / "elsewhere")
        [one] = run_folder.nvml_events(tmp_path / name)
        texts.append((one.code, one.text))
    assert texts == [(NVML_UNREADABLE, "steps/gemm/nvml_events.jsonl: not a regular file")] * 2


def test_the_events_of_an_attempt_that_was_cut_short_count(tmp_path):
    path = tmp_path / "interrupted" / "gemm-1" / evidence.NVML_EVENTS
    path.parent.mkdir(parents=True)
    path.write_bytes(strict.line(GOOD))
    assert run_folder.nvml_events(tmp_path) == [GOOD]


def test_a_run_full_of_events_stays_small_enough_to_bring_home(tmp_path):
    for number in range(6):
        path = tmp_path / "steps" / f"s{number}" / evidence.NVML_EVENTS
        path.parent.mkdir(parents=True)
        path.write_bytes(strict.line(GOOD) * 1000)
    events = run_folder.nvml_events(tmp_path)
    assert len(events) == run_folder.NVML_ALL + 1 and events[-1].code == NVML_UNREADABLE
    assert events[-1].text == "6000 events, at most 4000 are taken"


def test_of_a_run_full_of_events_those_that_fail_it_are_taken_first(tmp_path):
    for number, text in enumerate(["Xid 31, told by NVML"] * 5 + ["Xid 79, told by NVML"]):
        path = tmp_path / "steps" / f"s{number}" / evidence.NVML_EVENTS
        path.parent.mkdir(parents=True)
        path.write_bytes(strict.line(Event(NVML_XID, 5.0, "0000:18:00.0", text)) * 1000)
    assert sum("79" in one.text for one in run_folder.nvml_events(tmp_path)) == 1000
