"""A vendor's file is read, or refused with line and column."""

from __future__ import annotations

import codecs
import cProfile
import random

import pytest
from hypothesis import given, settings, strategies as st

from gpuburn import strict
from gpuburn.controller.manifest import file, rows
from gpuburn.manifest import COLUMNS, KINDS, SCHEMA, Amendment, Manifest, Ordered, Part, settled
from gpuburn.strict import Refused
from tests.controller.manifest.lists import one, read

TEXT = "host,rack,gpu_serial\r\nnode1,机柜一,G0\r\nnode1,机柜一,G1\r\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(), codecs.BOM_UTF8 + TEXT.encode(), TEXT.encode("gb18030"),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.replace(",", ";").encode(), TEXT.replace(",", "\t").encode(), TEXT.replace("\r\n", "\n").encode(),
    ],
)  # fmt: skip
def test_encodings_and_delimiters_that_can_be_told_are_read(data: bytes) -> None:
    [host] = file.parse(data, "list.csv")
    assert (host.host, host.values["rack"]) == ("node1", "机柜一")
    assert [part.values for part in host.parts] == [{"gpu_serial": "G0"}, {"gpu_serial": "G1"}]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("host,rack\nnode1,é à".encode("latin-1"), "list.csv: line 2, column 2: its encoding cannot be told; wanted"),
        ("host,rack\nnode1,rétro".encode("latin-1"), "line 2, column 2: its encoding cannot be told"),
        ("host,rack\nnode1,1".encode("utf-16-le"), "line 1, column 1: a NUL byte, as of UTF-16 without its mark"),
        (b'host,rack\n"a\nb,c",\0', "line 3, column 2: a NUL byte"),
        (b"host,rack\n" + b"a" * 200_000 + b"\0", "line 2: a NUL byte"),
        (codecs.BOM_UTF8 + b"host\n\xff", "line 2, column 1: no UTF-8, which its mark says it is"),
        (codecs.BOM_UTF16_LE + b"h\x00,\x00o", "line 1, column 2: no UTF-16"),
        (codecs.BOM_UTF32_LE + "host".encode("utf-32-le"), "a NUL byte"),
        (b"", "line 1: no heading"),
        (b"\n\n", "line 1: no heading"),
        (b"host,gpu_serial\n", "no host; wanted is at least one line"),
        (b'host,rack\nnode1,"a\n', "line 2, column 2: not CSV"),
        (b'host,rack\nnode1,"a"b\n', "line 2, column 2: not CSV"),
        (b'host,rack,unit\r\nn,"a ""b"", c\r\n",1\r\nn,x,"1"2"\r\n', "line 4, column 3: not CSV"),
        (b'host;rack;unit\nn;"a\nb";"c\nd\n', "line 3, column 3: not CSV"),
        (b'host,rack\rn,1\rm,"a"b', "line 3, column 2: not CSV"),
        (b"host,rack\nnode1," + b"a" * 200_000, "line 2: not CSV"),
        (b'host,rack\nnode1,"a\n' + b"node2,b\n" * 20_000, "line 2, column 2: not CSV"),
    ],
)
def test_a_file_that_is_no_list_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(Refused, match=r"list\.csv") as refused:
        file.parse(data, "list.csv")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("rack", "encoding"),
    [
        ("Стойка", "cp1251"), ("Стойка", "koi8-r"), ("서울랙", "euc-kr"), ("전산실 제일 랙", "euc-kr"),
        ("サーバ", "shift-jis"), ("東京第一ラック", "shift-jis"), ("東京第一ラック", "euc-jp"), ("臺北機房", "big5"),
        ("ράφι", "cp1253"), ("ארון", "cp1255"),
        ("Regál č. 3 šíře", "cp1250"), ("Schränke öäüß", "latin-1"), ("ตู้", "tis-620"), ("خزانة", "cp1256"),
    ],
)  # fmt: skip
def test_another_encoding_is_not_read_as_chinese(rack: str, encoding: str) -> None:
    with pytest.raises(Refused, match="line 3, column 2: its encoding cannot be told"):
        file.parse(f"host,rack\nnode1,A1\nnode2,{rack}\n".encode(encoding), "list.csv")


@pytest.mark.parametrize(
    "rack",
    [
        "机柜一",
        "甲",
        "北京亦庄数据中心",
        "三号楼二层\uff08东\uff09",
        "\uff21\uff10\uff11",
        "上海张江机房",
        "乌兰察布",
        "浪潮服务器·左",
    ],
)
def test_chinese_lists_are_read_in_the_encoding_of_their_country(rack: str) -> None:
    [host] = file.parse(f"host,rack\nnode1,{rack}\n".encode("gb18030"), "list.csv")
    assert host.values["rack"] == rack


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("host,gpu_serail", "a,1"), "column 2 (gpu_serail): unknown column 'gpu_serail'; did you mean 'gpu_serial'?"),
        (("host,colour", "a,red"), "line 1, column 2 (colour): unknown column 'colour'; `gpuburn manifest columns`"),
        (("host,", "a,1"), "line 1, column 2 (no heading): unknown column"),
        (("host,GPU SN,gpu-serial", "a,1,2"), "column 3 (gpu-serial): is gpu_serial, as column 2 (GPU SN) is"),
        (("host,rack", "a,r1", "b,=cmd|x"), "line 3, column 2 (rack): '=cmd|x' begins as a formula does"),
        (("host,rack", "a,+1"), "line 2, column 2 (rack): '+1' begins as a formula"),
        (("host,rack", "a, -1"), "line 2, column 2 (rack): '-1' begins as a formula"),
        (("host,rack", "a,@SUM(A1)"), "column 2 (rack): '@SUM(A1)' begins as a formula"),
        (("host,rack", "a,\uff1d1"), "column 2 (rack): '\uff1d1' begins as a formula"),
        (("host,rack", "a,r{{ x }}"), "column 2 (rack): 'r{{ x }}' holds a template"),
        (("host,rack", "a,r\u202e1"), "column 2 (rack): 'r\\u202e1' has a control character"),
        (("host,rack", f"a,{'r' * 201}"), "column 2 (rack): 201 characters; wanted are at most 200"),
        (("host,rack", "a,r1,more"), "line 2, column 3: a cell beyond the last heading"),
        (("host,rack", ",r1"), "line 2: nothing tells which host this is"),
        (("host,rack", "n/a,r1"), "line 2: nothing tells which host this is"),
        (("host,rack", "../x,r1"), "line 2, column 1 (host): '../x' is no host name; wanted are letters"),
        (("host,gpu_count", "a,eight"), "line 2, column 2 (gpu_count): 'eight' is no whole number"),
        (("host,gpu_count", "a,8.5"), "'8.5' is no whole number"),
        (("host,memory_gib", "a,2 TiB"), "line 2, column 2 (memory_gib): '2 TiB' is no number without a unit"),
        (("host,sku", "a,h100-smx"), "line 2, column 2 (sku): gpuburn sku list: unknown 'h100-smx'; did you mean"),
        (("host,nic_mac", "a,00:11:22"), "line 2, column 2 (nic_mac): '00:11:22' is no MAC address"),
        (("host,gpu_serial", "a,1.65502E+12"), "'1.65502E+12' is a number that a spreadsheet has rounded"),
        (("host,gpu_serial", "a,机"), "column 2 (gpu_serial): '机' is no serial"),
        (("host,nic_model", "a,CX7"), "line 2, column 2 (nic_model): nothing in this line tells which nic is meant"),
        (("host,nvme_model", "a,PM9"), "column 2 (nvme_model): nothing in this line tells which nvme is meant"),
        (("host,gpu_serial,gpu_slot", "a,G0;G1,gpu0"), "line 2, column 3 (gpu_slot): 1 values, and gpu_serial has 2"),
        (("host,gpu_serial", "a,G0", "b,G1", "b,g0"), "line 4, column 2 (gpu_serial): 'g0' is in line 2 already"),
        (("host,gpu_serial", "a,G0", "a,G0"), "line 3, column 2 (gpu_serial): 'G0' is in line 2 already"),
        (("host,gpu_serial", "a,G0;G1;G0"), "line 2, column 2 (gpu_serial): 'G0' is in line 2 already"),
        (("host,product_serial", "a,P1", "b,P1"), "line 3, column 2 (product_serial): 'P1' is in line 2 already"),
        (("host,nic_mac", "a,001122334455", "b,00:11:22:33:44:55"), "column 2 (nic_mac): '00:11:22:33:44:55' is in"),
        (("host,gpu_slot", "a,SXM1", "b,SXM1", "a,SXM1"), "line 4, column 2 (gpu_slot): 'SXM1' is in line 2 already"),
        (("host,rack", "a,r1", "b,r1", "a,r2"), "line 4, column 2 (rack): 'r2' for host a, and 'r1' in line 2"),
        (("host,gpu_vbios", "a,1", "a,2"), "line 3, column 2 (gpu_vbios): '2' for host a, and '1' in line 2"),
        (("rack,unit", "机柜,1"), "line 2, column 1 (rack): '-u1' gives the host no plain name; add a column host"),
        (
            ("host,rack,unit", "a,R1,1", "b,R1,1"),
            "line 3, column 3 (unit): rack R1, unit 1 is of host b, and of host a in line 2; wanted is one host in a",
        ),
        (("rack,unit", "R1,U01", "R1,1"), "column 2 (unit): rack R1, unit 1 is of host r1-u1, and of host r1-u01"),
        (("host,unit,rack", "a,1,", "b,u1,r1", "a,,R1"), "line 3, column 2 (unit): rack r1, unit u1 is of host b"),
        (("host,rack,unit,chassis_serial", "a,R,1,C1", "b,R,1,C2"), "column 3 (unit): rack R, unit 1 is of host b"),
        (("host", "a1", "b", "A1"), "line 4, column 1 (host): 'A1', and 'a1' in line 2: they differ in case only"),
        (
            ("host,gpu_count,gpu_serial", "a,8,S1;S2"),
            "line 2, column 2 (gpu_count): 8 for host a, and 2 gpu are listed, the first in line 2; wanted is one",
        ),
        (("host,gpu_slot,gpu_count", "a,gpu0,", "a,,2"), "column 3 (gpu_count): 2 for host a, and 1 gpu are listed"),
        (("host,nvme_count,nvme_serial", "a,1,N1|N2"), "(nvme_count): 1 for host a, and 2 nvme are listed"),
        ((",".join(["host"] * 101), "a"), "line 1: 101 columns; wanted are at most 100"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_line_and_column(lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(Refused) as refused:
        read(*lines)
    assert str(refused.value).startswith("list.csv: line ") and says in str(refused.value)


def test_a_list_that_agrees_with_itself_is_read() -> None:
    found = read("host,rack,unit,chassis_serial", "a,R1,1,C1", "b,R1,1,c1", "c,R2,1,", "d,R1,,", "e,R1,,")
    assert len(found.hosts) == 5, "hosts of one chassis share its place"
    assert one("host,gpu_count,gpu_serial,nic_count,nic_mac", "a,2,S1;S2,4,001122334455").values["nic_count"] == "4"


def test_a_line_is_the_files_own_where_a_cell_has_several() -> None:
    with pytest.raises(Refused, match=r"line 5, column 2 \(rack\)"):
        read("host,rack", '"a","r', '1"', "", "b,=1")


def test_more_rows_than_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROWS", 2)
    with pytest.raises(Refused, match="line 4: more than 2 rows"):
        read("host", "a", "b", "c")


def test_a_name_a_place_or_a_number_is_not_filler() -> None:
    found = one("host,rack,unit,nic_count", "x,F,0,0")
    assert (found.host, found.values) == ("x", {"host": "x", "rack": "F", "unit": "0", "nic_count": "0"})


@pytest.mark.parametrize("dash", ["-", " - ", "--", "\u2014", "\u2013", "\uff0d"])
def test_a_dash_alone_says_nothing(dash: str) -> None:
    heads = "host,rack,unit,gpu_count,gpu_serial,nic_mac,sku,cpu_model,dimm_slot"
    found = one(heads, ",".join(["a", *([dash] * 8)]))
    assert (found.values, found.parts) == ({"host": "a"}, [])


@pytest.mark.parametrize("junk", ["N/A", "To be filled by O.E.M.", "none", "0123456789", "  "])
def test_a_vendors_filler_is_absent(junk: str) -> None:
    assert one("host,chassis_serial,gpu_serial", f"a,{junk},{junk}").parts == []
    assert one("host,chassis_serial", f"a,{junk}").values == {"host": "a"}
    read("host,gpu_serial", f"a,{junk}", f"b,{junk}")


@pytest.mark.parametrize(
    "heading", ["Hostname", "HOST", "node-name", " Node  Name ", "主机名", "node_name"],
)  # fmt: skip
def test_headings_that_vendors_use_are_taken_from_the_table_alone(heading: str) -> None:
    assert one(heading, "a").host == "a"


def test_no_two_columns_claim_one_heading() -> None:
    claims = [rows.key(one) for column, about in COLUMNS.items() for one in (column, *about.aliases)]
    assert len(set(claims)) == len(claims)


def test_rows_of_one_host_are_merged_whichever_way_a_vendor_writes_them() -> None:
    by_part = read("host,chassis_serial,gpu_serial,gpu_vbios", "a,C1,G0,96", "a,C1,G1,96")
    in_one = read("host,chassis_serial,gpu_serial,gpu_vbios", "a,C1,G0;G1,96")
    apart = read("host,chassis_serial,gpu_serial,gpu_vbios", "a,C1,,", "a,,G1,96", "a,,G0,96")
    assert by_part == in_one == apart


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (("rack,unit", "A 01,U7"), "a-01-u7"), (("product_serial", "AB/12"), "ab-12"), (("chassis_serial", "C9"), "c9"),
        (("host,rack,unit", "x,A01,7"), "x"),
    ],
)  # fmt: skip
def test_a_host_without_a_name_is_called_by_its_place_or_serial(lines: tuple[str, ...], name: str) -> None:
    assert one(*lines).host == name


def test_a_hundred_thousand_rows_are_one_list() -> None:
    lines = [f"node{host},C{host},G{host}-{gpu}" for host in range(12_500) for gpu in range(8)]
    assert len(lines) == 100_000
    found = read("host,chassis_serial,gpu_serial", *lines)
    assert len(found.hosts) == 12_500 and all(len(host.parts) == 8 for host in found.hosts)
    with pytest.raises(Refused, match=r"line 100002, column 3 \(gpu_serial\): 'G7-0' is in line 58 already"):
        read("host,chassis_serial,gpu_serial", *lines, "other,C,G7-0")


def test_a_row_costs_few_calls() -> None:
    """A hundred thousand rows are read and digested in seconds: counted in calls, which no busy machine changes."""
    lines = [f"node{host},R{host},{1 + host % 40},G{host}-{gpu},gpu{gpu}" for host in range(125) for gpu in range(8)]
    read("host,rack,unit,gpu_serial,gpu_slot", *lines[:8])  # what is read once
    profile = cProfile.Profile()
    digest = profile.runcall(lambda: read("host,rack,unit,gpu_serial,gpu_slot", *lines).digest)
    calls = sum(one.callcount for one in profile.getstats())
    assert len(digest) == 64 and calls < 130 * len(lines)


SERIAL = st.from_regex(r"[A-DF-Z][0-9]{1,6}", fullmatch=True)
PARTS = st.lists(st.tuples(st.sampled_from("abc"), SERIAL), min_size=1, max_size=12, unique_by=lambda part: part[1])


@settings(deadline=None, max_examples=50)
@given(PARTS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(parts: list[tuple[str, str]], order: random.Random) -> None:
    lines = [f"{host},rack-{host},{serial},V{len(serial)}" for host, serial in parts]
    mixed = order.sample(lines, len(lines))
    head = "host,rack,gpu_serial,gpu_vbios"
    assert read(head, *lines) == read(head, *mixed)
    assert read(head, *lines).digest == read(head, *mixed).digest


TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
VALUES = st.dictionaries(st.sampled_from([*COLUMNS]), TEXTS, max_size=4)
HOSTS = st.builds(Ordered, TEXTS, VALUES, st.lists(st.builds(Part, st.sampled_from(KINDS), VALUES), max_size=3))
AMENDED = st.builds(Amendment, *[TEXTS.map(lambda text: f"x{text}")] * 5)


@settings(deadline=None, max_examples=200)
@given(st.lists(HOSTS, max_size=3), st.lists(AMENDED, max_size=2))
def test_the_bytes_of_a_list_are_its_canonical_ones(hosts: list[Ordered], amended: list[Amendment]) -> None:
    found = Manifest(SCHEMA, hosts, amended)
    assert found.encoded() == strict.encode(found)


def test_another_value_is_another_digest() -> None:
    one_, other = read("host,rack", "a,1"), read("host,rack", "a,2")
    assert one_.digest != other.digest and isinstance(one_, Manifest)
    assert settled(one_.hosts).digest == one_.digest
