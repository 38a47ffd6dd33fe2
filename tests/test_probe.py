"""Declaring probes: what a file promises is checked when it is read, and parameters before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuburn import probe as probes
from gpuburn.measurement import NOWHERE, Metric, Observed, Point
from gpuburn.probe import REGISTRY, TYPES, Probe, Taken, discover, probe
from gpuburn.strict import Refused

ALL = sorted(discover().values(), key=lambda one: one.name)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Probe]:
    monkeypatch.setattr(probes, "REGISTRY", dict(REGISTRY))
    return probes.REGISTRY


def sample(
    device: Any,
    size: int = 1,
    share: float = 0.5,
    name: str = "a",
    on: bool = False,
    sizes: list[int] = [1, 2],  # noqa: B006
) -> Iterator[Taken]:
    """A sample.

    Exercises: nothing.
    Does not exercise: anything.
    """
    yield from ()


def declared(registry: dict[str, Probe], **more: Any) -> Probe:
    probe(scope="device", smoke={}, **more)(sample)
    return registry["sample"]


def test_a_probe_is_named_after_its_function_and_keeps_its_promises_apart(registry: dict[str, Probe]) -> None:
    one = declared(registry, speed=Metric("GB/s"), sum=Observed("bits"))
    assert (one.name, list(one.metrics), list(one.facts)) == ("sample", ["speed"], ["sum"])
    assert list(one.promises) == ["speed", "sum"]
    assert list(one.parameters) == ["size", "share", "name", "on", "sizes"]


def test_two_probes_of_one_name_are_refused(registry: dict[str, Probe]) -> None:
    declared(registry)
    other = type(sample)(sample.__code__, {}, "sample", sample.__defaults__)
    other.__doc__, other.__module__ = sample.__doc__, "elsewhere"
    with pytest.raises(Refused, match="two probes named 'sample'"):
        probe(scope="device", smoke={})(other)


@pytest.mark.parametrize("doc", ["", "Only this.", "Exercises: a.", "Does not exercise: b."])
def test_a_probe_says_what_it_does_not_exercise(registry: dict[str, Probe], doc: str) -> None:
    def silent(device: Any) -> Iterator[Taken]:
        yield from ()

    silent.__doc__ = doc
    with pytest.raises(Refused, match="what it exercises"):
        probe(scope="device", smoke={})(silent)


def test_defaults_are_filled_in(registry: dict[str, Probe]) -> None:
    settled = declared(registry).settled({"size": 7}, "a")
    assert settled == {"size": 7, "share": 0.5, "name": "a", "on": False, "sizes": [1, 2]}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"sise": 1}, "parameter of sample: unknown 'sise'; did you mean 'size'?"),
        ({"device": 1}, "unknown 'device'"),
        ({"size": "1"}, "sample.size is '1', wanted is int"),
        ({"size": 1.0}, "wanted is int"),
        ({"size": True}, "wanted is int"),
        ({"share": True}, "wanted is float"),
        ({"share": None}, "wanted is float"),
        ({"on": 1}, "wanted is bool"),
        ({"name": 1}, "wanted is str"),
        ({"sizes": 1}, r"wanted is list\[int\]"),
        ({"sizes": ["1"]}, r"wanted is list\[int\]"),
        ({"sizes": [True]}, r"wanted is list\[int\]"),
        ({"size": 0}, "sample.size is 0, wanted are finite numbers, sizes from 1 up"),
        ({"size": -1}, "sizes from 1 up"),
        ({"share": -0.1}, "wanted are finite numbers"),
        ({"share": float("nan")}, "wanted are finite numbers"),
        ({"share": float("inf")}, "wanted are finite numbers"),
        ({"sizes": []}, "sizes from 1 up"),
        ({"sizes": [1, 0]}, "sizes from 1 up"),
    ],
)
def test_a_parameter_of_another_name_or_type_is_refused(
    registry: dict[str, Probe], params: dict[str, Any], says: str
) -> None:
    with pytest.raises(Refused, match=f"^step x: .*{says}"):
        declared(registry).settled(params, "step x")


def test_an_integer_is_a_number(registry: dict[str, Probe]) -> None:
    assert declared(registry).settled({"share": 1}, "a")["share"] == 1


def test_a_misspelt_smoke_parameter_is_refused_when_the_file_is_read(registry: dict[str, Probe]) -> None:
    with pytest.raises(Refused, match="sise"):
        probe(scope="device", smoke={"sise": 1})(sample)


def test_the_points_of_a_promise_are_known_from_the_parameters(registry: dict[str, Probe]) -> None:
    one = declared(registry, a=Metric("s", at={"mib": "sizes", "dtype": "names"}), b=Metric("s"))
    params = {"sizes": [1, 2], "names": ["x"]}
    assert one.points(one.metrics["a"], params) == [Point.of(mib=1, dtype="x"), Point.of(mib=2, dtype="x")]
    assert one.points(one.metrics["b"], params) == [NOWHERE]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_probe_can_be_planned_from_its_declaration_alone(one: Probe) -> None:
    for name, parameter in one.parameters.items():
        kind = str(parameter.annotation)
        assert kind.removeprefix("list[").removesuffix("]") in TYPES, f"{one.name}.{name} is a {kind}"
        assert parameter.default is not parameter.empty, f"{one.name}.{name} has no default"
    for promise in one.promises.values():
        for parameter in promise.at.values():
            assert str(one.parameters[parameter].annotation).startswith("list["), f"{one.name}: at {parameter}"
        assert one.points(promise, one.settled(one.smoke, one.name))


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_promise_says_what_it_measures_and_a_probe_what_work_proves_it(one: Probe) -> None:
    assert one.work
    assert set(one.work) <= {"iterations", "bytes", "joules"}
    assert one.revision >= 1
    assert one.promises
    for name, promise in one.promises.items():
        assert promise.doc.strip(), f"{one.name}.{name} has no doc"
        assert promise.per in ("", "host", "device", "pair")
