"""Strict reading: hostile JSON and YAML are refused by name, and what is written reads back as it was."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import Any, Literal

import pytest
import runs
from hypothesis import given, strategies as st

from gpuburn import plan as plans, strict
from gpuburn.plan import Plan
from gpuburn.strict import Refused

HOSTILE = {
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "a float that overflows": b'{"a": 1e999}',
    "a key written twice": b'{"a": 1, "a": 2}',
    "a key written twice, deep inside": b'[{"b": {"a": 1, "a": 1}}]',
    "a nesting that exhausts the stack": b"[" * 100_000,
    "a nesting beyond any document of ours": b"[" * 40 + b"]" * 40,
    "a nesting of objects": b'{"a":' * 40 + b"1" + b"}" * 40,
    "an integer of 5,000 digits": b"9" * 5000,
    "an integer beyond 2**53": b"9007199254740993",
    "a negative integer beyond 2**53": b"-9007199254740993",
    "a lone surrogate": b'"\\ud800"',
    "a lone surrogate as a key": b'{"\\udfff": 1}',
    "NUL": b'"\\u0000"',
    "NUL in a key": b'{"a\\u0000": 1}',
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "bytes that are not UTF-8": b'"\xff"',
    "nothing": b"",
    "half a document": b'{"a": ',
    "two documents": b"{} {}",
    "a comment": b"{} // no",
    "single quotes": b"{'a': 1}",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_is_refused_in_one_line_naming_the_file(data: bytes) -> None:
    with pytest.raises(Refused, match=r"^a\.json: ") as refused:
        strict.loads(data, "a.json")
    assert "\n" not in str(refused.value)


def test_the_largest_exact_integer_is_read() -> None:
    assert strict.loads(b"[9007199254740992, -9007199254740992]", "a") == [2**53, -(2**53)]


def test_a_document_as_deep_as_allowed_is_read() -> None:
    assert strict.loads(b"[" * strict.DEPTH + b"]" * strict.DEPTH, "a")
    with pytest.raises(Refused, match="deeper than 32"):
        strict.loads(b"[" * (strict.DEPTH + 2) + b"]" * (strict.DEPTH + 2), "a")


def test_a_document_over_its_size_is_not_even_parsed() -> None:
    assert strict.loads(b'"abcd"', "a", limit=6) == "abcd"
    with pytest.raises(Refused, match="7 bytes, at most 6"):
        strict.loads(b'"abcde"', "a", limit=6)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert strict.loads(strict.encode(value), "a") == value
    assert strict.loads(strict.line(value), "a") == value
    assert strict.line(value).count(b"\n") == 1


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=5))
def test_the_same_words_are_the_same_bytes_in_any_order(value: dict[str, int]) -> None:
    assert strict.encode(value) == strict.encode(dict(reversed(value.items())))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_never_written(value: float) -> None:
    for write in (strict.encode, strict.line):
        with pytest.raises(ValueError, match="JSON"):
            write([value])


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_refused(data: bytes) -> None:
    try:
        strict.loads(data, "a")
    except Refused:
        return


class Colour(str, enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Inner:
    number: float
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner
    colour: Colour = Colour.RED
    size: Literal["small", "large"] = "small"
    maybe: float | None = None
    either: str | int = ""
    count: int = 0
    on: bool = False
    by_name: dict[str, Inner] = dataclasses.field(default_factory=dict)


def outer(**fields: Any) -> Outer:
    return strict.build(Outer, {"inner": {"number": 1}, **fields}, "file: key")


def test_data_becomes_words() -> None:
    made = outer(colour="red", size="large", maybe=2, either=7, by_name={"a": {"number": 2.5, "names": ["x"]}})
    assert made == Outer(Inner(1.0), Colour.RED, "large", 2.0, 7, by_name={"a": Inner(2.5, ("x",))})
    assert type(made.inner.number) is float


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"colur": "red"}, "unknown 'colur'; did you mean 'colour'?"),
        ({"zzz": 1}, "unknown 'zzz'; known: by_name, colour"),
        ({"inner": {}}, "inner: 'number' is missing"),
        ({"inner": {"number": "1"}}, "inner.number: '1' is a str, wanted is a float"),
        ({"inner": {"number": True}}, "inner.number: True is a bool, wanted is a float"),
        ({"inner": {"number": None}}, "inner.number: None is a NoneType"),
        ({"inner": {"number": float("nan")}}, "inner.number: nan is not a finite number"),
        ({"inner": {"number": float("inf")}}, "inner.number: inf is not a finite number"),
        ({"inner": []}, r"inner: \[\] is a list, wanted is a dict"),
        ({"inner": {"number": 1, "names": "x"}}, "inner.names: 'x' is a str, wanted is a list"),
        ({"inner": {"number": 1, "names": [1]}}, r"inner.names\[0\]: 1 is a int, wanted is a str"),
        ({"colour": "blue"}, "colour: 'blue' is not one of red"),
        ({"colour": ["red"]}, r"colour: \['red'\] is not one of red"),
        ({"size": "medium"}, "size: 'medium' is not one of small, large"),
        ({"maybe": "1"}, "maybe: '1' is a str"),
        ({"maybe": float("nan")}, "maybe: nan is not a finite number"),
        ({"either": True}, "either: True is a bool"),
        ({"either": 1.5}, "either: 1.5 is a float"),
        ({"either": None}, "either: None is a NoneType"),
        ({"count": 1.0}, "count: 1.0 is a float, wanted is a int"),
        ({"count": True}, "count: True is a bool, wanted is a int"),
        ({"on": 1}, "on: 1 is a int, wanted is a bool"),
        ({"on": "false"}, "on: 'false' is a str, wanted is a bool"),
        ({"by_name": {"a": {}}}, "by_name.a: 'number' is missing"),
        ({"by_name": {1: {"number": 1}}}, "by_name: 1 is a int, wanted is a str"),
        ({5: 1}, "unknown '5'"),
    ],
)
def test_a_word_that_is_not_as_promised_is_refused_by_name(fields: dict[Any, Any], says: str) -> None:
    with pytest.raises(Refused, match=f"^file: key.*{says}"):
        outer(**{}) if not fields else strict.build(Outer, {"inner": {"number": 1}, **fields}, "file: key")


def test_a_typo_names_what_was_probably_meant() -> None:
    strict.known("gemm", ["gemm", "idle"], "a")
    with pytest.raises(Refused, match="a: unknown 'gem'; did you mean 'gemm'"):
        strict.known("gem", ["gemm", "idle"], "a")
    with pytest.raises(Refused, match="a: unknown 'xyz'; known: gemm, idle"):
        strict.known("xyz", ["idle", "gemm"], "a")


def test_a_plan_reads_back_as_it_was(rehearsal: Plan, bare_metal: Plan) -> None:
    for plan in (rehearsal, bare_metal):
        again = plans.decode(strict.encode(plan))
        assert again == plan
        assert strict.encode(again) == strict.encode(plan)


def test_a_file_is_read_only_if_it_is_a_regular_one_of_bounded_size(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert strict.load_file(file, 5) == b"12345"
    with pytest.raises(Refused, match="longer than 4 bytes"):
        strict.load_file(file, 4)
    (tmp_path / "link").symlink_to(file)
    for name in ("link", "absent", "."):
        with pytest.raises(Refused, match="not a regular file"):
            strict.load_file(tmp_path / name)
    with pytest.raises(Refused, match="not a regular file"):
        strict.load_file(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2\n", "'a'.*written twice"),
        ("b: {a: 1, a: 2}\n", "'a'.*written twice"),
        ("1: 1\na: 1\n1: 1\na: 2\n", "written twice"),
        ("a: [\n", "not YAML"),
        ("a: !!python/object/apply:os.system [id]\n", "not YAML"),
        ("? [a, b]\n: 1\n", "not YAML"),
        ("? {a: b}\n: 1\n", "not YAML"),
        ("a: \t- b\n", "not YAML"),
    ],
)
def test_yaml_that_could_mean_two_things_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "a.yml"
    file.write_text(text)
    with pytest.raises(Refused, match=says) as refused:
        strict.load_yaml(file)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


def test_yaml_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(Refused, match="not YAML"):
        strict.load_yaml(tmp_path / "a.yml")


def test_a_digest_is_the_one_that_everybody_can_compute() -> None:
    assert strict.digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert json.loads(strict.line({"b": 1, "a": [1.5]})) == {"a": [1.5], "b": 1}
    assert strict.line({"b": 1, "a": [1.5]}) == b'{"a":[1.5],"b":1}\n'


def test_the_steps_of_a_run_use_only_what_the_strict_reader_can_carry(rehearsal: Plan) -> None:
    for outcome in runs.outcomes(rehearsal).values():
        assert strict.build(type(outcome), strict.loads(strict.encode(outcome), "a"), "a") == outcome
