"""One probe by hand: its words, its devices, its table."""

from __future__ import annotations

import pytest

from gpuburn.agent import by_hand, hardware, nvml
from gpuburn.agent.nvml import Gpu, Seen
from gpuburn.identity import Identity
from gpuburn.measurement import Fact, Measurement, Point, Work
from gpuburn.outcome import Outcome, Status, SubjectOutcome
from gpuburn.strict import Refused


def test_words_are_parameters_and_their_values_yaml():
    words = ["--size", "64", "--sizes-mib", "[1, 2]", "--dtype", "float32", "--seconds", "0.5", "--on", "true"]
    assert by_hand.parameters(words, "gemm") == {
        "size": 64, "sizes_mib": [1, 2], "dtype": "float32", "seconds": 0.5, "on": True,
    }  # fmt: skip
    assert by_hand.parameters([], "gemm") == {}


@pytest.mark.parametrize(("words", "said"), [
    (["--size"], "'--size' has no value"), (["size", "64"], "'size' is no parameter"),
    (["--size", "64", "--seconds"], "'--seconds' has no value"), (["--size", "[1"], "--size '\\[1' is no YAML"),
    (["--size", "1", "--size", "2"], "--size is given twice"),
])  # fmt: skip
def test_words_that_are_no_parameters_are_refused(words, said):
    with pytest.raises(Refused, match=f"probe gemm: {said}") as refused:
        by_hand.parameters(words, "gemm")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "params", "said"), [
    ("gem", {}, "did you mean 'gemm'"), ("gemm", {"sise": 1}, "did you mean 'size'"),
    ("gemm", {"size": "big"}, "wanted is int"),
])  # fmt: skip
def test_what_no_probe_has_is_refused_before_anything_runs(name, params, said):
    with pytest.raises(Refused, match=said):
        by_hand.carry_out_one(name, params, 1)


def test_fewer_processes_than_none_are_refused():
    with pytest.raises(Refused, match="--cpu is -1; wanted is the number of processes"):
        by_hand.carry_out_one("gemm", {}, -1)


def test_gpus_are_taken_in_pci_order_and_cpus_where_asked_or_where_there_are_none(monkeypatch):
    card, adapter = {"vendor": "0x10de", "class": "0x030200"}, {"vendor": "0x15b3", "class": "0x020000"}
    seen = {"pci.0000:2a:00.0": card, "pci.0000:18:00.0": card, "pci.0000:19:00.0": adapter, "cpu": {}}
    monkeypatch.setattr(nvml.Nvml, "look", lambda self, names=(): Seen(absent="Driver Not Loaded"))
    monkeypatch.setattr(hardware, "look", lambda: Identity(0.0, "", seen))
    assert [(one.name, one.kind, one.pci) for one in by_hand.devices(0)] == [
        ("gpu0", "cuda", "0000:18:00.0"), ("gpu1", "cuda", "0000:2a:00.0"),
    ]  # fmt: skip
    assert [one.name for one in by_hand.devices(2)] == ["cpu0", "cpu1"]
    monkeypatch.setattr(hardware, "look", lambda: Identity(0.0, ""))
    assert [one.name for one in by_hand.devices(0)] == ["cpu0"]


def test_gpus_that_nvml_shows_and_the_kernels_files_do_not_are_there(monkeypatch):
    card = {"vendor": "0x10de", "class": "0x030200"}
    shown = Seen([Gpu(0, {"pci": "0000:18:00.0"}), Gpu(1, {"pci": "0000:09:00.0"}), Gpu(2, {}, {"pci": "GPU is lost"})])
    monkeypatch.setattr(nvml.Nvml, "look", lambda self, names=(): shown)
    monkeypatch.setattr(hardware, "look", lambda: Identity(0.0, "", {"pci.0000:18:00.0": card}))
    assert [one.pci for one in by_hand.devices(0)] == ["0000:09:00.0", "0000:18:00.0"]
    monkeypatch.setattr(hardware, "look", lambda: Identity(0.0, ""))
    assert [one.pci for one in by_hand.devices(0)] == ["0000:09:00.0", "0000:18:00.0"]
    assert [one.name for one in by_hand.devices(1)] == ["cpu0"]


def test_the_table_has_every_measurement_fact_and_failure():
    outcome = Outcome(
        "gemm", "gemm", 1, Status.ERRORED, "gpu1: lost", 0.0, 12.34, 1,
        [SubjectOutcome("gpu0", Status.COMPLETED, "", Work()), SubjectOutcome("gpu1", Status.ERRORED, "lost")],
        [Measurement("gemm.tflops", "TFLOP/s", "gpu0", Point.of(size=64), 1234.5678, 1.0, 2e9, 7)],
        [Fact("gemm.checksum", "ab" * 40, subject="gpu0")],
    )  # fmt: skip
    assert by_hand.table(outcome).splitlines() == [
        "metric         subject  point    value                                             unit     low  high   n",
        "gemm.tflops    gpu0     size=64  1234.57                                           TFLOP/s  1    2e+09  7",
        "gemm.checksum  gpu0              " + "ab" * 24,
        "gpu0: completed",
        "gpu1: errored lost",
        "gemm: errored in 12.3 s gpu1: lost",
    ]


def test_a_probe_runs_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(by_hand.tempfile, "tempdir", None)
    outcome = by_hand.carry_out_one("idle", {"period": 0.01}, 1)
    assert outcome.status is Status.COMPLETED and "idle.late" in by_hand.table(outcome)
    assert list(tmp_path.iterdir()) == []
