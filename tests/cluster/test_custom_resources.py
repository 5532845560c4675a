"""CustomResourceDefinitions and the objects that they define."""

from typing import Any

import pytest

from tests.cluster.conftest import MERGE_PATCH, TABLE, Client, make

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/ex.io/v1/namespaces/default/foos"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["n"],
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 5},
                "s": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "p": {"type": "string", "pattern": "^x+$"},
                "l": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
                "m": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
            },
        },
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}


def definition(**spec: Any) -> dict[str, Any]:
    """A definition of Foos in two versions."""
    first = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        "selectableFields": [{"jsonPath": ".spec.s"}],
        "schema": {"openAPIV3Schema": SCHEMA},
    }
    second = {**first, "name": "v2", "storage": False}
    names = {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]}
    given = {"group": "ex.io", "scope": "Namespaced", "names": names, "versions": [first, second], **spec}
    return make("apiextensions.k8s.io/v1", "CustomResourceDefinition", "foos.ex.io", spec=given)


def foo(name: str = "f", **spec: Any) -> dict[str, Any]:
    return make("ex.io/v1", "Foo", name, spec=spec)


async def test_a_definition_is_served_at_once(client: Client) -> None:
    """In discovery, in OpenAPI, and with its own columns."""
    await client.create(DEFINITIONS, definition())
    stored = await client.get(f"{DEFINITIONS}/foos.ex.io")
    assert [(each["type"], each["status"]) for each in stored["status"]["conditions"]] == [
        ("NamesAccepted", "True"),
        ("Established", "True"),
    ]
    resources = await client.get("/apis/ex.io/v1")
    assert [each["name"] for each in resources["resources"]] == ["foos", "foos/scale", "foos/status"]
    assert "apis/ex.io/v1" in (await client.get("/openapi/v3"))["paths"]
    openapi = await client.get("/openapi/v3/apis/ex.io/v1")
    assert openapi["components"]["schemas"]["io.ex.v1.Foo"]["x-kubernetes-group-version-kind"][0]["kind"] == "Foo"
    await client.create(FOOS, foo(n=2))
    table = await client.get(FOOS, accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "N"]
    assert table["rows"][0]["cells"] == ["f", 2]


async def test_objects_are_defaulted_and_pruned(client: Client) -> None:
    """What the schema does not know goes, with a warning, unless it is to be preserved."""
    await client.create(DEFINITIONS, definition())
    answer = await client.ask("POST", FOOS, foo(n=1, zz=1, any={"q": {"r": 1}}, either="5%"))
    assert answer.warnings == ['299 - "unknown field \\"spec.zz\\""']
    assert answer.body["spec"] == {"n": 1, "s": "a", "any": {"q": {"r": 1}}, "either": "5%"}
    assert answer.body["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec.n: Required value"),
        ({"n": 9}, "spec.n: Invalid value: 9: spec.n in body should be less than or equal to 5"),
        ({"n": "x"}, 'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"'),
        ({"n": 1, "s": "z"}, 'spec.s: Unsupported value: "z": supported values: "a", "b"'),
        ({"n": 1, "p": "y"}, "spec.p: Invalid value: \"y\": spec.p in body should match '^x+$'"),
        ({"n": 1, "l": ["a", "b", "c"]}, "spec.l: Too many: 3: must have at most 2 items"),
        (
            {"n": 1, "l": [1]},
            'spec.l[0]: Invalid value: "integer": spec.l[0] in body must be of type string: "integer"',
        ),
        (
            {"n": 1, "m": {"k": 1}},
            'spec.m.k: Invalid value: "integer": spec.m.k in body must be of type boolean: "integer"',
        ),
    ],
)
async def test_objects_are_checked_against_the_schema(client: Client, spec: dict[str, Any], message: str) -> None:
    """With Kubernetes' words."""
    await client.create(DEFINITIONS, definition())
    answer = await client.ask("POST", FOOS, foo(**spec))
    assert (answer.status, answer.message) == (422, f'Foo.ex.io "f" is invalid: {message}')


async def test_versions_and_subresources(client: Client) -> None:
    """One object, seen through two versions; status and scale apart."""
    await client.create(DEFINITIONS, definition())
    await client.create(FOOS, {**foo(n=1), "status": {"n": 7}})
    other = FOOS.replace("v1", "v2")
    seen = await client.get(f"{other}/f")
    assert (seen["apiVersion"], "status" in seen) == ("ex.io/v2", False)
    await client.patch(f"{other}/f/status", {"status": {"n": 3}, "spec": {"n": 5}})
    assert (await client.patch(f"{FOOS}/f/scale", {"spec": {"replicas": 4}}))["status"] == {"replicas": 3}
    after = await client.get(f"{FOOS}/f")
    assert (after["spec"]["n"], after["status"], after["metadata"]["generation"]) == (4, {"n": 3}, 2)
    answer = await client.ask("PUT", f"{FOOS}/f", foo(n=2))
    assert "must be specified for an update" in answer.message
    selected = await client.get(f"{FOOS}?fieldSelector=spec.s%3Da")
    assert len(selected["items"]) == 1
    async with client.watch(f"{other}?watch=true") as stream:
        kind, each = await stream.event()
        assert (kind, each["apiVersion"]) == ("ADDED", "ex.io/v2")


async def test_a_deleted_definition_takes_its_objects_along(client: Client) -> None:
    """And its watches end."""
    await client.create(DEFINITIONS, definition())
    await client.create(FOOS, foo(n=1))
    async with client.watch(f"{FOOS}?watch=true") as stream:
        assert await stream.names(1) == [("ADDED", "f")]
        await client.delete(f"{DEFINITIONS}/foos.ex.io")
        assert await stream.names(1) == [("DELETED", "f")]
        assert (await stream.event())[0] == "END"
    assert (await client.ask("GET", FOOS)).status == 404
    assert (await client.ask("GET", f"{DEFINITIONS}/foos.ex.io")).status == 404


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"group": "other.io"}, 'metadata.name: Invalid value: "foos.ex.io": must be spec.names.plural+"."+spec.group'),
        ({"scope": "Planet"}, 'spec.scope: Unsupported value: "Planet": supported values: "Cluster", "Namespaced"'),
        ({"versions": []}, "spec.versions: Required value: must have at least one version"),
        (
            {
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}},
                    }
                ]
            },
            "properties[spec].type: Required value: must not be empty for specified object fields",
        ),
    ],
)
async def test_bad_definitions(client: Client, spec: dict[str, Any], message: str) -> None:
    """Are refused."""
    answer = await client.ask("POST", DEFINITIONS, definition(**spec))
    assert (answer.status, message in answer.message) == (422, True), answer.message


async def test_strategic_patches_are_not_for_custom_resources(client: Client) -> None:
    """Nobody knows their merge keys."""
    await client.create(DEFINITIONS, definition())
    await client.create(FOOS, foo(n=1))
    answer = await client.ask("PATCH", f"{FOOS}/f", {}, content="application/strategic-merge-patch+json")
    assert answer.status == 415
    assert (await client.ask("PATCH", f"{FOOS}/f", {"spec": {"n": 2}}, content=MERGE_PATCH)).status == 200
