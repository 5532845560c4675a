"""The definitions compared with Volcano's, field by field.

`volcano_schemas.json` records what the definitions of Volcano 1.15.1 say: names, scope, columns, and for each field its
type and limits, without descriptions. Pod templates and volume claims are recorded as single fields.
`python -m tests.controllers.definitions.test_schemas` records them again, from Go's module cache.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.controllers.definitions import DEFINITIONS

RECORDED = Path(__file__).with_name("volcano_schemas.json")
#: Objects of Kubernetes' own API, whose fields are not compared.
FOREIGN = ("tasks[].template", "volumes[].volumeClaim")
#: What a field's schema contains besides the fields below it.
BELOW = frozenset({"properties", "items", "additionalProperties", "description"})

#: Intended differences: the end of the field's path, the differing parts of its schema, and the reason.
DIFFERENCES = (
    (
        "tasks[].template",
        {"x-kubernetes-preserve-unknown-fields"},
        "admission validates templates as the API server validates pods; the fields of later releases are kept",
    ),
    ("volumes[].volumeClaim", {"x-kubernetes-preserve-unknown-fields"}, "the API server validates the claim itself"),
    ("patch.jobSpec.maxRetry", {"default"}, "a patch has no defaults: an omitted field is not patched"),
    ("patch.jobSpec.queue", {"default"}, "a patch has no defaults"),
    ("patch.jobSpec.networkTopology.mode", {"default"}, "a patch has no defaults"),
    ("patch.jobSpec.tasks[].partitionPolicy.networkTopology.mode", {"default"}, "a patch has no defaults"),
    ("patch.jobSpec.tasks[].partitionPolicy.minPartitions", {"default"}, "a patch has no defaults"),
)
#: Parts that make a schema stricter than Volcano's, where its webhooks refuse the same objects.
STRICTER = frozenset({"maxItems", "maxProperties"})
RULES = "x-kubernetes-validations"


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return each field of a schema with its own part of the schema."""
    yield path, {key: each for key, each in sorted(schema.items()) if key not in BELOW}
    if path.endswith(FOREIGN):
        return
    for name, each in schema.get("properties", {}).items():
        yield from fields(each, f"{path}.{name}" if path else name)
    for mark, key in (("[]", "items"), ("{}", "additionalProperties")):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], path + mark)


def recorded_form(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared of a definition."""
    spec = definition["spec"]
    (version,) = spec["versions"]
    columns = [{key: each[key] for key in sorted(each) if key != "description"} for each in columns_of(version)]
    return {
        "group": spec["group"],
        "version": version["name"],
        "names": spec["names"],
        "scope": spec["scope"],
        "subresources": sorted(version.get("subresources", {})),
        "columns": columns,
        "fields": {path: _sorted(each) for path, each in fields(version["schema"]["openAPIV3Schema"])},
    }


def columns_of(version: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = version.get("additionalPrinterColumns", [])
    return found


def _sorted(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part with its required fields in order, and with the messages of its rules only."""
    found = {key: sorted(each) if key == "required" else each for key, each in part.items()}
    if RULES in found:
        found[RULES] = [each["message"] for each in found[RULES]]
    return found


def upstream() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


OURS = {each["metadata"]["name"]: recorded_form(each) for each in DEFINITIONS}


def test_all_definitions_of_volcano_are_installed() -> None:
    assert sorted(OURS) == sorted(upstream())


@pytest.mark.parametrize("name", sorted(OURS))
def test_fields(name: str) -> None:
    theirs, ours = upstream()[name], OURS[name]
    found = []
    for path, wanted in theirs["fields"].items():
        if path not in ours["fields"]:
            found.append(f"{path}: missing")
            continue
        given = ours["fields"][path]
        differing = {key for key in {*wanted, *given} if wanted.get(key) != given.get(key)}
        # A part that only we have makes the schema stricter; any other difference must be intended.
        differing -= {key for key in differing & STRICTER if key not in wanted}
        if set(wanted.get(RULES, ())) <= set(given.get(RULES, ())):
            differing.discard(RULES)
        if differing - intended(path):
            found.append(f"{path}: {wanted} there, {given} here")
    found += [f"{path}: not a field there" for path in ours["fields"] if path not in theirs["fields"]]
    assert not found


@pytest.mark.parametrize("name", sorted(OURS))
def test_names_scope_and_columns(name: str) -> None:
    theirs, ours = dict(upstream()[name]), dict(OURS[name])
    # Queues show more columns than in Volcano.
    columns = ours.pop("columns")
    assert [each for each in theirs.pop("columns") if each not in columns] == []
    del theirs["fields"], ours["fields"]
    assert ours == theirs


def test_each_intended_difference_exists() -> None:
    for end, parts, reason in DIFFERENCES:
        pairs = [
            (each, OURS[name]["fields"][path])
            for name, theirs in upstream().items()
            for path, each in theirs["fields"].items()
            if path.endswith(end)
        ]
        assert any(one.get(part) != other.get(part) for one, other in pairs for part in parts), end
        assert reason


def intended(path: str) -> set[str]:
    return {part for end, parts, _ in DIFFERENCES if path.endswith(end) for part in parts}


def record() -> None:
    cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    base = Path(cache, "volcano.sh", "volcano@v1.15.1", "config", "crd")
    documents = [yaml.safe_load(path.read_text()) for path in sorted(base.glob("*/bases/*.yaml"))]
    parts = []
    for document in sorted(documents, key=lambda each: str(each["metadata"]["name"])):
        form = recorded_form(document)
        lines = [f"  {json.dumps(path)}: {json.dumps(each)}" for path, each in form.pop("fields").items()]
        head = ",\n ".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in form.items())
        parts.append(
            f'{json.dumps(document["metadata"]["name"])}: {{\n {head},\n "fields": {{\n' + ",\n".join(lines) + "\n }}"
        )
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    record()
