"""The sampler: the host from a made-up /proc, GPUs through the real pynvml over a library that a scenario drives."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest

from gpuburn import evidence, strict
from gpuburn.agent import nvml, sensors, telemetry
from gpuburn.agent.worker import Assignment
from gpuburn.measurement import Reading
from gpuburn.plan import Device
from gpuburn.telemetry import TELEMETRY
from tests.fakes.nvml.build import HEALTHY, environment, library

ROOT = Path(__file__).parents[2]
BY_PCI = [Device("gpu0", "cuda", pci="0000:18:00.0"), Device("gpu1", "cuda", pci="0000:2A:00.0")]
BY_UUID = [
    Device("gpu0", "cuda", uuid="GPU-beea0002-0000-0000-0000-000000000002"),
    Device("gpu1", "cuda", uuid="GPU-beea0001-0000-0000-0000-000000000001"),
]
# Reads lines: "pass" prints what one pass saw; the scenario may change between two passes of one sampler.
SAMPLER = """
import json, sys; from gpuburn import plan, strict; from gpuburn.agent import nvml, sensors
devices = strict.build(list[plan.Device], json.loads(sys.argv[1]), "devices")
with nvml.Nvml() as library:
    for _ in sys.stdin:
        look = library.look(sensors.ASKED)
        seen = [r for name, gpu in sensors.found(devices, look) if gpu for r in sensors.gpu(name, gpu)]
        print(json.dumps([[r.subject, r.metric, r.value] for r in seen]), flush=True)
"""
compiled = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler for the fake libnvidia-ml.so.1")


def test_the_host_is_read_from_proc(tmp_path):
    (tmp_path / "loadavg").write_text("3.25 1.00 0.50 2/345 6789\n")
    (tmp_path / "meminfo").write_text("MemTotal:  8388608 kB\nMemAvailable:  3145728 kB\nSwapFree: 0 kB\n")
    assert [(r.metric, r.value, r.subject) for r in sensors.host(tmp_path)] == [
        ("load", 3.25, "host"), ("memory_available", 3.0, "host"),
    ]  # fmt: skip


def test_a_kernel_that_does_not_tell_available_memory_gives_no_reading_of_it(tmp_path):
    (tmp_path / "loadavg").write_text("0.00 0.00 0.00 1/1 1\n")
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB\n")
    assert [r.metric for r in sensors.host(tmp_path)] == ["load"]


def test_each_pass_says_how_long_the_sampler_was_blind():
    first, second = islice(telemetry.passes([Device("cpu0", "cpu")], time.time() - 7, nvml.Nvml()), 2)
    assert {r.metric for r in first} <= set(TELEMETRY.metrics) and len({r.at for r in first}) == 1
    gaps = [r.value for seen in (first, second) for r in seen if r.metric == "gap"]
    assert gaps[0] >= 7 > gaps[1]
    assert [r.value for r in first if r.metric == "samples"] == [1.0]


def test_cpus_are_never_looked_for_in_nvml():
    class Untouched(nvml.Nvml):
        def look(self, names=()):
            raise AssertionError("asked")

    next(telemetry.passes([Device("cpu0", "cpu")], 0.0, Untouched()))


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def sampler(built, tmp_path):
    """Start one sampler over these devices; each call is a pass under that scenario."""
    pytest.importorskip("pynvml")
    started: list[subprocess.Popen[str]] = []

    def start(devices):
        (tmp_path / "scenario").write_text(HEALTHY)
        given = json.dumps(strict.plain(devices))
        one = subprocess.Popen(
            [sys.executable, "-c", SAMPLER, given], cwd=ROOT, env=environment(built, tmp_path / "scenario"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        started.append(one)

        def look(scenario=HEALTHY):
            (tmp_path / "scenario").write_text(scenario)
            one.stdin.write("pass\n")
            one.stdin.flush()
            found = {}
            for subject, metric, value in json.loads(one.stdout.readline()):
                found.setdefault(subject, {})[metric] = value
            return found

        return look

    yield start
    for one in started:
        one.stdin.close()
        assert one.wait(30) == 0


STEADY = {
    "power_limit": 700.0, "memory_peak": 4916.736, "sm_clock": 345.0, "pcie_gen": 5.0, "pcie_gen_max": 5.0,
    "pcie_width": 16.0, "pcie_width_max": 16.0, "slowdown_at": 89.0, "memory_max_at": 95.0, "margin": 50.0,
    "memory_temperature": 35.0, "power_limit_default": 700.0, "power_limit_high": 700.0, "pcie_peak": 63.008,
}  # fmt: skip
COOL = {"temperature": 31.0, "power": 75.25, **STEADY}
WARM = {"temperature": 33.0, "power": 77.0, **STEADY}


@compiled
@pytest.mark.parametrize(("planned", "wanted"), [
    (BY_PCI, {"gpu0": COOL, "gpu1": WARM}), (BY_UUID, {"gpu0": WARM, "gpu1": COOL}), (BY_PCI[1:], {"gpu1": WARM}),
    ([Device("gpu0", "cuda")], {}), ([Device("gpu0", "cuda", pci="0000:99:00.0")], {}),
    ([Device("gpu0", "cuda", pci="0000:18:00.0", uuid="GPU-another")], {}),
])  # fmt: skip
def test_a_planned_gpu_is_found_by_its_identity_and_never_by_its_place(sampler, planned, wanted):
    assert sampler(planned)() == wanted


@compiled
def test_a_gpu_that_is_lost_gives_no_reading_while_its_neighbour_goes_on_and_returns(sampler):
    look = sampler(BY_PCI)
    assert look("0 * !15\n" + HEALTHY) == {"gpu1": WARM}
    assert look() == {"gpu0": COOL, "gpu1": WARM}
    without = {name: value for name, value in WARM.items() if name != "power"}
    assert look(HEALTHY.replace("1 power_mw 77000", "1 power_mw !3")) == {"gpu0": COOL, "gpu1": without}


@compiled
def test_a_library_that_stops_answering_is_opened_anew(sampler):
    look = sampler(BY_PCI)
    assert look("library init !9\n" + HEALTHY) == {}
    assert look() == {"gpu0": COOL, "gpu1": WARM}
    assert look("library count !1\n" + HEALTHY) == {}
    assert look() == {"gpu0": COOL, "gpu1": WARM}


@pytest.fixture
def binding(monkeypatch):
    """A pynvml that counts how often it is opened and closed."""
    from types import SimpleNamespace

    calls: list[str] = []

    class Failed(Exception):
        pass

    def closing() -> None:
        calls.append("close")
        raise Failed("busy")

    fake = SimpleNamespace(
        NVMLError=Failed, calls=calls, nvmlInit=lambda: calls.append("open"), nvmlShutdown=closing,
        nvmlSystemGetDriverVersion=lambda: "580", nvmlDeviceGetCount=lambda: 0,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_nvml_is_opened_once_over_the_samplers_life_and_left_also_where_that_fails(binding):
    with nvml.Nvml() as one:
        assert [one.look().driver for _ in range(3)] == ["580"] * 3
    one.close()
    assert binding.calls == ["open", "close"]


def test_after_a_failure_it_is_left_and_opened_anew(binding):
    def lost() -> int:
        raise binding.NVMLError("Uninitialized")

    one, binding.nvmlDeviceGetCount = nvml.Nvml(), lost
    assert one.look().absent == one.look().absent == "Uninitialized"
    assert binding.calls == ["open", "close"] * 2


def test_only_what_is_asked_for_is_asked(monkeypatch, binding):
    asked = []
    binding.nvmlDeviceGetCount = lambda: 1
    binding.nvmlDeviceGetHandleByIndex = lambda index: index
    for name in nvml.ASKABLE:
        book = nvml.QUESTIONS if name in nvml.QUESTIONS else nvml.HEALTH
        monkeypatch.setitem(book, name, lambda library, handle, name=name: asked.append(name) or name)
    for name, (parts, _) in nvml.SHEETS.items():
        sheet = (parts, lambda library, handle, name=name, parts=parts: asked.append(name) or parts)
        monkeypatch.setitem(nvml.SHEETS, name, sheet)
    nvml.Nvml().look(sensors.ASKED)
    assert asked == list(sensors.ASKED)


def test_the_sampler_appends_whole_lines_until_it_is_told_to_stop(tmp_path):
    assignment = Assignment("idle", "host", {}, [Device("cpu0", "cpu")], 1, 1, 60.0)
    (tmp_path / "assignment.json").write_bytes(strict.encode(assignment))
    one = subprocess.Popen([sys.executable, "-m", "gpuburn.agent.telemetry", str(tmp_path)], cwd=ROOT)
    end = time.monotonic() + 60
    path = tmp_path / "telemetry.jsonl"
    while not (path.exists() and path.stat().st_size):
        assert one.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    one.send_signal(signal.SIGTERM)
    assert one.wait(30) == 0
    data = path.read_bytes()
    taken = evidence.parse(data, "telemetry.jsonl")
    assert data.endswith(b"\n") and all(isinstance(entry, Reading) for entry in taken)
    assert {entry.metric for entry in taken} == {"samples", "gap", "load", "memory_available"}
