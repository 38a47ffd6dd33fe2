"""Each slip of a published table, put into a copy of our own, is refused; what is true and surprising is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuburn import plausible, sku, strict
from gpuburn.sku import Sku
from gpuburn.strict import Refused

H100, A100 = "h100-sxm5-80gb", "a100-sxm4-80gb"
DCGM, NCCL = {"method": "dcgmproftester"}, {"method": "nccl-tests", "devices": 8}
COPY = {"method": "pinned copy"}


def document(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((sku.FOLDER / f"{name}.yml").read_text())
    return loaded


def entry(value: float, unit: str = "GB/s", basis: str = "threshold", **more: Any) -> dict[str, Any]:
    return {"value": value, "unit": unit, "basis": basis, "confidence": "high", "source": "somebody's table", **more}


def problems(of: dict[str, Any]) -> list[str]:
    return plausible.problems(strict.build(Sku, of, "sku"))


@pytest.mark.parametrize("name", sku.ids())
def test_our_own_tables_are_plausible(name: str) -> None:
    assert problems(document(name)) == []


SLIPS = [
    # DCGM 4.6.0, diag-skus.yaml.in: floors of memory bandwidth, as written and as the unit they were meant in
    ("a100-sxm4-40gb", "dcgmproftester", entry(137500, "MB/s", **DCGM), "137500 MB/s; wanted is GB/s"),
    ("a100-sxm4-40gb", "dcgmproftester", entry(137.5, **DCGM), "wanted is 777.5 to"),
    ("a100-sxm4-40gb", "dcgmproftester", entry(137500, **DCGM), "wanted is 777.5 to"),
    ("a100-sxm4-40gb", "dcgmproftester", entry(1830, basis="measured", **DCGM), "wanted is 622 to 1555"),
    ("h200-sxm", "dcgmproftester", entry(2333, "MB/s", **DCGM), "2333 MB/s; wanted is GB/s"),
    ("h200-sxm", "dcgmproftester", entry(2.333, **DCGM), "wanted is 2400 to"),
    ("h200-sxm", "dcgmproftester", entry(2333, **DCGM), "wanted is 2400 to"),
    ("l40", "dcgmproftester", entry(49050, "MB/s", **DCGM), "49050 MB/s; wanted is GB/s"),
    ("l40", "dcgmproftester", entry(49.05, **DCGM), "wanted is 432 to"),
    (H100, "dcgmproftester", entry(122.25, **DCGM), "wanted is 1675 to"),
    ("gb200", "dcgmproftester", entry(2602.5, **DCGM), "wanted is 4000 to"),
    ("a10", "dcgmproftester", entry(641, basis="measured", **DCGM), "wanted is 240 to 600"),
    # floors above what a perfect machine reaches
    (H100, "allreduce", entry(800, **{**NCCL, "devices": 16, "method": "nccl-tests over efa"}), "at most 427.5"),
    (H100, "allreduce", entry(800, **NCCL), "nvlink_peak 450 with NVLS"),
    ("b200", "allreduce", entry(900, method="nccl-tests over efa", devices=16), "at most 855"),
    (H100, "allreduce", entry(500, **NCCL), "at most 476: a good device was measured at 476"),
    ("h100-nvl", "p2p", entry(335, method="peer copy"), "0.4 to 0.95 of nvlink_peak 300"),
    ("h200-sxm", "allreduce", entry(488.4, **NCCL), "at most 480"),
    ("h200-sxm", "p2p", entry(400, method="peer copy"), "at most 396.4: a good device"),  # whichever tool copied
    (A100, "allreduce", entry(400, basis="measured", **NCCL), "0.35 to 1 of nvlink_peak 300"),  # no NVLS before Hopper
    (A100, "h2d", entry(52, **COPY), "0.5 to 0.95 of the link's 31.5"),
    (H100, "h2d", entry(52, **COPY), "at most 51: a good device was measured at 51"),
    (H100, "triad", entry(3000, method="babelstream triad"), "at most 2970"),
    # a link at half its width, or through a virtual machine
    (A100, "d2h", entry(6.27, basis="measured", **COPY), "wanted is 15.75 to 31.5"),
    (H100, "h2d", entry(25, basis="measured", **COPY), "wanted is 31.5 to 63"),
    ("gb200", "h2d", entry(55, basis="measured", **COPY), "wanted is 225 to 450"),
    # TF32 in a column headed FP32
    (H100, "gemm_fp32", entry(373, "TFLOP/s", "measured", method="gemm sustained"), "wanted is 23.45 to 70.35"),
    (A100, "gemm_fp32", entry(130, "TFLOP/s", "measured", method="gemm sustained"), "of peak 19.5"),
    # another unit, a lost digit
    (H100, "gemm_bf16", entry(730_000, "GFLOP/s", "measured", method="gemm sustained"), "wanted is TFLOP/s"),
    (H100, "gemm_bf16", entry(730_000, "TFLOP/s", "measured", method="gemm sustained"), "of peak 989"),
    (H100, "gemm_bf16", entry(73.0, "TFLOP/s", "measured", method="gemm sustained"), "of peak 989"),
    (H100, "allreduce", entry(47.6, basis="measured", **NCCL), "of nvlink_peak 450"),
    (H100, "allreduce", entry(3800, "Gbit/s", basis="measured", **NCCL), "wanted is GB/s"),
    ("rtx-5090", "allreduce", entry(280, basis="measured", **NCCL), "of pcie_peak 63"),
    (H100, "nic", entry(380, "GB/s", method="rdma write"), "wanted is 1 to 200"),
    (H100, "allreduce", entry(38.66, basis="measured", method="nccl-tests over ndr400", devices=64), "others measured"),
    # more than the memory can give: 155 tok/s of a 70B FP16 model (140 GB) on one H200 is 21.7 TB/s
    ("h200-sxm", "decode", entry(155, "token/s", "measured", method="decode"), "bytes of weights and cache read"),
    ("h200-sxm", "decode", entry(155 * 140.0, basis="measured", method="decode"), "the memory gives, 4800"),
    ("h200-sxm", "decode_share", entry(4.52, "1", "measured", method="decode"), "a share of the bandwidth"),
    (H100, "decode", entry(214.6 * 16.06, basis="measured", method="decode"), "the memory gives, 3350"),
    # no word of ours
    (H100, "gemm_int4", entry(1, "TFLOP/s"), "not a reference number; wanted is one of"),
    (H100, "triad", entry(2900, method="cudamemcpy d2d"), "method is 'cudamemcpy d2d'; wanted is 'babelstream triad'"),
    (H100, "triad", entry(2900, method=""), "method is ''"),
    (H100, "triad", entry(2900, basis="datasheet", method="babelstream triad"), "wanted is measured or threshold"),
    (H100, "peak_bf16", entry(989, "TFLOP/s", "measured"), "basis is measured; wanted is datasheet"),
    (H100, "triad", entry(2900, method="babelstream triad", devices=8), "devices is 8; wanted is 0"),
    (H100, "triad", entry(2900, method="babelstream triad", source=" "), "no source"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "slip", "says"), SLIPS, ids=lambda one: one if isinstance(one, str) else "")
def test_a_slip_of_a_published_table_is_refused(name: str, key: str, slip: dict[str, Any], says: str) -> None:
    changed = document(name)
    changed["numbers"].setdefault(key, []).append(slip)
    where = f"numbers.{key}[{len(changed['numbers'][key]) - 1}]: "
    assert any(one.startswith(where) and says in one for one in problems(changed)), problems(changed)


WRITTEN_WRONG = [
    # with sparsity for dense: one column, and all of them
    (H100, {"peak_fp16": 1979, "peak_bf16": 1979}, "numbers.peak_fp16[0]: 1979 TFLOP/s (datasheet); wanted is 959.33"),
    (H100, {"peak_fp8": 3958}, "numbers.peak_fp8[0]: 3958 TFLOP/s (datasheet); wanted is 1918.7"),
    (H100, {"peak_tf32": 989, "peak_fp16": 1979, "peak_bf16": 1979, "peak_fp8": 3958}, "dense tensor cores of 9.0"),
    ("h20-3e", {"peak_tf32": 1000, "peak_fp16": 2000, "peak_bf16": 2000, "peak_fp8": 4000}, "dense tensor cores"),
    ("l4", {"peak_tf32": 120, "peak_fp16": 242, "peak_bf16": 242, "peak_fp8": 485}, "dense tensor cores of 8.9"),
    ("l40", {"peak_fp16": 362, "peak_bf16": 362, "peak_fp8": 724}, "twice peak_tf32 90.5, dense"),
    ("b200", {"peak_fp4": 18000}, "two or three times peak_fp8 4500"),
    # a neighbour's row: nanochat swaps H800 SXM and NVL, torchtitan takes an L40S for an A100
    ("h800-sxm5-80gb", {"peak_fp16": 835, "peak_bf16": 835}, "twice peak_tf32 494.5"),
    ("l40s", {"peak_bf16": 312}, "peak_fp16 362"),
    ("h20", {"nvlink_peak": 200}, "18 links of 25"),
    # units and forms
    (H100, {"memory": 80_000}, "wanted is 8 to 512"),
    (H100, {"memory": 74.5}, "the size in the id h100-sxm5-80gb"),
    ("a100-sxm4-40gb", {"memory": 80}, "the size in the id"),
    (H100, {"memory_bandwidth_peak": 3_350_000}, "wanted is 200 to 20000"),
    ("a30", {"memory_bandwidth_peak": 93.3}, "wanted is 200 to 20000"),
    ("v100s-pcie-32gb", {"memory_bandwidth_peak": 900}, "2 x 1107 MHz x 4096 bit / 8"),
    (H100, {"power": 0.7}, "what a board of form sxm takes"),
    (H100, {"power": 5600}, "what a board of form sxm takes"),
    ("l4", {"power": 700}, "what a board of form pcie takes"),
    (A100, {"pcie_peak": 63}, "Gen4 x16"),
    (A100, {"pcie_peak": 3.15}, "Gen4 x16"),
    (A100, {"nvlink_peak": 600}, "12 links of 25"),  # both directions for one
    ("a40", {"nvlink_peak": 1.125}, "what any GPU has"),
    (H100, {"peak_fp32": 67_000}, "what any GPU has"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "says"), WRITTEN_WRONG, ids=str)
def test_a_wrong_peak_is_refused(name: str, values: dict[str, float], says: str) -> None:
    changed = document(name)
    for key, value in values.items():
        changed["numbers"][key][0].update(value=value, confidence="high")
    assert any(says in one for one in problems(changed)), problems(changed)


@pytest.mark.parametrize("key", ["memory", "power", "memory_bandwidth_peak", "peak_bf16", "pcie_peak", "nvlink_peak"])
def test_what_the_part_is_specified_for_must_be_there(key: str) -> None:
    changed = document(H100)
    del changed["numbers"][key]
    assert f"numbers.{key}: missing; wanted is what the part is specified for" in problems(changed)


def test_a_number_of_an_unsupported_dtype_is_refused() -> None:
    changed = document("t4")
    changed["numbers"]["gemm_bf16"] = [entry(10, "TFLOP/s", "measured", method="gemm burst")]  # emulated
    assert "numbers.gemm_bf16: bf16 is unsupported; wanted is one or the other" in problems(changed)


def test_an_unknown_compute_capability_is_refused() -> None:
    assert any(
        "'9.9' is not known; wanted is one of 7.0" in one
        for one in problems({**document("l4"), "compute_capability": "9.9"})
    )


def test_what_breaks_a_rule_stands_only_with_low_confidence_and_a_note_and_is_never_chosen() -> None:
    slip = entry(6.27, basis="measured", **COPY)
    for more, stands in (
        ({"note": "through a VM"}, False),
        ({"confidence": "low"}, False),
        ({"confidence": "low", "note": "through a VM"}, True),
    ):
        changed = document(A100)
        changed["numbers"]["d2h"].append({**slip, **more})
        assert (problems(changed) == []) is stands
    chosen = sku.lowest(strict.build(Sku, changed, "sku"), "d2h", "pinned copy")
    assert chosen is not None and chosen.value == 25.9


def test_a_number_for_the_record_is_still_well_formed() -> None:
    changed = document(A100)
    changed["numbers"]["d2h"].append(entry(6270, "MB/s", "measured", **COPY, confidence="low", note="through a VM"))
    assert any("6270 MB/s; wanted is GB/s" in one for one in problems(changed))


def test_a_number_for_the_record_does_not_bound_the_others() -> None:
    changed = document(H100)
    changed["numbers"]["allreduce"].append(entry(200, basis="measured", **NCCL, confidence="low", note="one bad host"))
    assert problems(changed) == []


@pytest.mark.parametrize(
    ("name", "key", "true"),
    [
        (H100, "allreduce", entry(482, basis="measured", **NCCL)),  # NVLS: above the link's 450
        ("gb200", "allreduce", entry(847, basis="measured", method="nccl-tests", devices=72)),
        ("h800-sxm5-80gb", "allreduce", entry(215, basis="measured", **NCCL)),
        ("rtx-5090", "gemm_bf16", entry(242.2, "TFLOP/s", "measured", method="gemm burst")),  # boost above specified
        ("rtx-4090", "gemm_fp32", entry(46.5, "TFLOP/s", "measured", method="gemm burst")),  # 0.56 of peak is normal
        (A100, "memcpy_d2d", entry(1371, basis="measured", method="cudamemcpy d2d")),
        (H100, "dcgmproftester", entry(1905, **DCGM)),
        ("h200-sxm", "decode_share", entry(0.86, "1", "measured", method="decode")),
    ],
)
def test_what_is_true_and_surprising_is_taken(name: str, key: str, true: dict[str, Any]) -> None:
    changed = document(name)
    changed["numbers"].setdefault(key, []).append(true)
    assert problems(changed) == []


@pytest.mark.parametrize("method", ["nccl-tests ring", "nccl-tests bridged", "nccl-tests over ndr400"])
def test_without_the_switch_no_all_reduce_exceeds_the_link(method: str) -> None:
    changed = document(H100)
    changed["numbers"]["allreduce"].append(entry(480, basis="measured", method=method, devices=16))
    assert any("wanted is" in one and "1 of nvlink_peak 450" in one for one in problems(changed))


def test_the_loader_names_file_key_value_and_wish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = document(A100)
    changed["numbers"]["d2h"][0]["value"] = 6.27
    (tmp_path / f"{A100}.yml").write_text(yaml.safe_dump(changed))
    monkeypatch.setattr(sku, "FOLDER", tmp_path)
    wish = r"6\.27 GB/s \(measured\); wanted is 15\.75 to 31\.5: 0\.5 to 1 of the link's 31\.5"
    with pytest.raises(Refused, match=rf"^a100-sxm4-80gb\.yml: numbers\.d2h\[0\]: {wish}$"):
        sku.load(A100)
