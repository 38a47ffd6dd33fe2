"""The reader under the real pynvml, over a library that says what a scenario wants."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuburn.agent import nvml
from tests.fakes.nvml.build import HEALTHY, environment, library

pytest.importorskip("pynvml")
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler for the fake libnvidia-ml.so.1")
ROOT = Path(__file__).parents[2]
LOOK = """
import json; from gpuburn import strict; from gpuburn.agent import nvml
print(json.dumps(strict.plain(nvml.look())))
"""
PROBE = """
import json; from pathlib import Path; from gpuburn import strict; from gpuburn.agent.host import Host
from gpuburn.probe import discover
run = discover()["identity"].run(Host("host", Path("."), [], 1, 1))
print(json.dumps([strict.plain(taken) for taken in run]))
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def tell(built, tmp_path):
    """Run a program under a scenario, and read the JSON that it prints."""

    def run(scenario: str, program: str = LOOK):
        (tmp_path / "scenario").write_text(scenario)
        env = environment(built, tmp_path / "scenario")
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return run


def test_two_gpus_tell_all(tell):
    seen = tell(HEALTHY)
    assert seen["driver"] == "580.95.05" and seen["absent"] == ""
    first, second = seen["gpus"]
    assert first["values"] == {
        "uuid": "GPU-beea0001-0000-0000-0000-000000000001", "serial": "1655023015625", "name": "NVIDIA H200",
        "pci": "0000:18:00.0", "pci_id": "0x233510de", "vbios": "96.00.CF.00.01", "memory": 143771 / 1024,
        "temperature": 31.0, "power": 75.25, "power_limit": 700.0, "memory_peak": 4916.736, "pcie_peak": 63.008,
        "sm_clock": 345.0,
    }  # fmt: skip
    assert first["missing"] == {} and second["values"]["pci"] == "0000:2a:00.0"


def test_a_serial_that_is_not_supported_is_absent_with_the_reason(tell):
    first, second = tell(HEALTHY.replace("0 serial 1655023015625", "0 serial !3"))["gpus"]
    assert first["missing"] == {"serial": "Not Supported"} and "serial" not in first["values"]
    assert len(first["values"]) == 12 and second["missing"] == {}


def test_a_lost_gpu_stays_in_the_list_and_its_neighbour_answers(tell):
    first, second = tell("1 * !15\n" + HEALTHY)["gpus"]
    assert len(first["values"]) == 13
    assert second["values"] == {} and set(second["missing"]) == set(nvml.QUESTIONS)
    assert set(second["missing"].values()) == {"GPU is lost"}


def test_a_gpu_lost_while_it_is_asked(tell):
    first, _ = tell("0 handle ok\n0 uuid GPU-1\n0 * !15\n" + HEALTHY)["gpus"]
    assert first["values"] == {"uuid": "GPU-1"} and first["missing"]["serial"] == "GPU is lost"


@pytest.mark.parametrize(("line", "why"), [("library init !9", "Driver Not Loaded"), ("library count !999", "Unknown")])
def test_a_library_that_does_not_answer_is_a_reason(tell, line, why):
    seen = tell(f"{line}\n{HEALTHY}")
    assert seen["gpus"] == [] and why in seen["absent"]


def test_what_a_device_says_is_bounded_and_one_line(tell):
    first, _ = tell(HEALTHY.replace("0 name NVIDIA H200", "0 name NVIDIA\tH200\x07"))["gpus"]
    assert first["values"]["name"] == "NVIDIA H200"


def test_a_missing_binding_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "no NVML binding" in nvml.look().absent


def test_the_probe_counts_lost_gpus_and_its_digest_changes_with_any_serial(tell):
    def said(scenario):
        taken = tell(scenario, PROBE)
        [gpus] = [one["value"] for one in taken if one.get("metric") == "gpus"]
        return gpus, {one["name"]: one["value"] for one in taken if "name" in one}

    gpus, facts = said(HEALTHY)
    assert gpus == 2 and facts["driver"] == "580.95.05"
    assert said(HEALTHY)[1]["devices"] == facts["devices"]
    assert said(HEALTHY.replace("1655023015626", "1655023015627"))[1]["devices"] != facts["devices"]
    assert said("1 * !15\n" + HEALTHY)[0] == 2


@pytest.mark.parametrize(("scenario", "wanted"), [
    (HEALTHY, "h200-sxm"),
    (HEALTHY.replace("0 pci_id 233510DE", "0 pci_id 233010DE"), "h100-sxm5-80gb"),  # the id decides, not the name
    (HEALTHY.replace("0 pci_id 233510DE", "0 pci_id !3"), "h200-sxm"),
    (HEALTHY.replace("0 pci_id 233510DE", "0 pci_id 999910DE").replace("0 name NVIDIA H200", "0 name NVIDIA H200 X"),
     "unknown: 0x999910de NVIDIA H200 X"),
])  # fmt: skip
def test_a_gpu_is_the_sku_that_it_tells_or_none(tell, scenario, wanted):
    from gpuburn.agent.nvml import Gpu
    from gpuburn.agent.probes.identity import told

    assert told(Gpu(0, tell(scenario)["gpus"][0]["values"])) == wanted
