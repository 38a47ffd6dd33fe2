"""The published schemas are those of the types, and a real plan and a real result keep to them.

After an additive change: gpuburn schema plan > gpuburn/schemas/plan-1.json, and the same for result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import runs

import gpuburn
from gpuburn import plan as plans, planning, result as results, schema, strict
from gpuburn.plan import Plan

FOLDER = Path(gpuburn.__file__).parent / "schemas"
KINDS: dict[str, type] = {"plan": plans.Plan, "result": results.Result}


def published(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}-1.json").read_text())
    return document


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("run") / "run"
    both = planning.make(runs.request(profiles=("training", "inference")), runs.NONCE, runs.ISSUED)
    gpus = planning.make(runs.hardware(count=8, profiles=("training", "inference")), runs.NONCE, runs.ISSUED)
    runs.write(folder, runs.plan())
    return {
        "plan": [json.loads(strict.encode(one)) for one in (both, gpus)],
        "result": [json.loads((folder / "result.json").read_bytes())],
    }


@pytest.mark.parametrize("name", KINDS)
def test_the_published_schema_is_the_one_of_the_types(name: str) -> None:
    assert published(name) == schema.schema(KINDS[name], f"{name}/1"), f"gpuburn schema {name} > {FOLDER}/{name}-1.json"
    jsonschema.Draft202012Validator.check_schema(published(name))


@pytest.mark.parametrize("name", KINDS)
def test_a_real_document_keeps_to_its_schema(documents: dict[str, list[Any]], name: str) -> None:
    for document in documents[name]:
        jsonschema.Draft202012Validator(published(name)).validate(document)


@pytest.mark.parametrize("name", KINDS)
def test_an_unknown_key_is_refused_at_the_top_and_in_every_word_below(
    documents: dict[str, list[Any]], name: str
) -> None:
    validator = jsonschema.Draft202012Validator(published(name))
    for path in ([], ["devices", 0], ["left_out", 0]):
        document = json.loads(json.dumps(documents[name][0]))
        place = document
        for key in path:
            place = place[key]
        place["surprise"] = 1
        assert not validator.is_valid(document), path


@pytest.mark.parametrize("name", KINDS)
def test_a_schema_of_another_version_is_refused(documents: dict[str, list[Any]], name: str) -> None:
    document = {**documents[name][0], "schema": f"gpuburn/{name}/2"}
    assert not jsonschema.Draft202012Validator(published(name)).is_valid(document)


def test_the_schema_travels_in_the_wheel() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == {"plan-1.json", "result-1.json"}


def test_a_plan_of_eight_gpus_keeps_to_the_schema(bare_metal: Plan) -> None:
    jsonschema.Draft202012Validator(published("plan")).validate(json.loads(strict.encode(bare_metal)))
