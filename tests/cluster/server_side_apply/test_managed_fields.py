"""Server-side apply and managed fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.schema.shape import shape_of
from mooring.cluster.server_side_apply.comparison import compare, set_of
from mooring.cluster.server_side_apply.field_set import FieldSet
from mooring.cluster.server_side_apply.managed_fields import merged, pruned
from tests.cluster.conftest import APPLY_PATCH, Client, make, template

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def _config(**data: str) -> dict[str, Any]:
    return make("v1", "ConfigMap", "c", data=data)


async def _apply(client: Client, manager: str, body: Any, path: str = f"{CONFIG_MAPS}/c", force: bool = False) -> Any:
    query = f"?fieldManager={manager}" + ("&force=true" if force else "")
    return await client.ask("PATCH", path + query, body, content=APPLY_PATCH)


def _owners(document: dict[str, Any]) -> dict[str, Any]:
    return {each["manager"]: each["fieldsV1"] for each in document["metadata"]["managedFields"]}


async def test_applying_creates_and_is_repeatable(client: Client) -> None:
    """The second time nothing changes, not even the version."""
    first = await _apply(client, "m", _config(a="1"))
    assert first.status == 201
    assert _owners(first.body) == {"m": {"f:data": {"f:a": {}}}}
    second = await _apply(client, "m", _config(a="1"))
    assert (second.status, second.body) == (200, first.body)


async def test_what_is_no_longer_applied_is_removed(client: Client) -> None:
    """Unless somebody else owns it too."""
    await _apply(client, "m", _config(a="1", b="2", c="3"))
    await _apply(client, "n", _config(b="2"))
    after = await _apply(client, "m", _config(a="1"))
    assert after.body["data"] == {"a": "1", "b": "2"}
    assert _owners(after.body) == {"m": {"f:data": {"f:a": {}}}, "n": {"f:data": {"f:b": {}}}}


async def test_conflicts_name_the_owner_and_the_field(client: Client) -> None:
    """Force takes the field over."""
    await _apply(client, "m", _config(a="1", b="2"))
    answer = await _apply(client, "n", _config(a="9", b="9"))
    assert answer.status == 409
    assert answer.message == 'Apply failed with 2 conflicts: conflicts with "m":\n- .data.a\n- .data.b'
    answer = await _apply(client, "n", _config(a="9"))
    assert answer.message == 'Apply failed with 1 conflict: conflict with "m": .data.a'
    forced = await _apply(client, "n", _config(a="9"), force=True)
    assert forced.body["data"] == {"a": "9", "b": "2"}
    assert _owners(forced.body) == {"m": {"f:data": {"f:b": {}}}, "n": {"f:data": {"f:a": {}}}}


async def test_updates_own_what_they_change(client: Client) -> None:
    """And an apply that would change it conflicts with them."""
    await client.create(CONFIG_MAPS, _config(a="1", b="2"))
    answer = await _apply(client, "m", _config(a="9"))
    assert answer.message == 'Apply failed with 1 conflict: conflict with "tests" using v1: .data.a'
    same = await _apply(client, "m", _config(a="1"))
    assert same.status == 200


async def test_lists_merge_by_key(client: Client) -> None:
    """Two managers can each have a container of their own."""

    def deployment(*names: str, image: str = "x") -> dict[str, Any]:
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
        spec["template"]["spec"]["containers"] = [{"name": name, "image": image} for name in names]
        return make("apps/v1", "Deployment", "d", spec=spec)

    path = f"{DEPLOYMENTS}/d"
    await _apply(client, "m", deployment("one"), path)
    both = await _apply(client, "n", deployment("two"), path)
    assert [each["name"] for each in both.body["spec"]["template"]["spec"]["containers"]] == ["one", "two"]
    answer = await _apply(client, "n", deployment("one", image="y"), path)
    assert '.spec.template.spec.containers[name="one"].image' in answer.message
    alone = await _apply(client, "m", deployment("three"), path)
    assert sorted(each["name"] for each in alone.body["spec"]["template"]["spec"]["containers"]) == ["three", "two"]


async def test_scaling_is_booked_to_its_subresource(client: Client) -> None:
    """As `kubectl apply --server-side` after `kubectl scale` shows."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    body = make("apps/v1", "Deployment", "d", spec=spec)
    await _apply(client, "m", body, f"{DEPLOYMENTS}/d")
    await client.patch(f"{DEPLOYMENTS}/d/scale?fieldManager=kubectl", {"spec": {"replicas": 5}})
    answer = await _apply(client, "m", body, f"{DEPLOYMENTS}/d")
    assert answer.message == (
        'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas'
    )


@pytest.mark.parametrize(
    ("query", "change", "code", "message"),
    [
        ("", {}, 422, "fieldManager: Required value: is required for apply patch"),
        ("?fieldManager=m", {"metadata": {"name": "other"}}, 400, "does not match the name on the URL (c)"),
        ("?fieldManager=m", {"kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
        ("?fieldManager=m", {"foo": 1}, 500, "(/c; /v1, Kind=ConfigMap): .foo: field not declared in schema"),
    ],
)
async def test_bad_applies(client: Client, query: str, change: dict[str, Any], code: int, message: str) -> None:
    """Are refused in Kubernetes' words."""
    answer = await client.ask("PATCH", f"{CONFIG_MAPS}/c{query}", {**_config(a="1"), **change}, content=APPLY_PATCH)
    assert (answer.status, message in answer.message) == (code, True), answer.message


_pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": st.dictionaries(st.sampled_from("xyz"), st.sampled_from("ab"))}
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeName": st.sampled_from("ab"),
                "nodeSelector": st.dictionaries(st.sampled_from("xy"), st.sampled_from("ab")),
                "containers": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from("cde")}, optional={"image": st.sampled_from("ab")}),
                    unique_by=lambda each: each["name"],
                    max_size=3,
                ),
            },
        ),
    },
)


@given(_pods, _pods)
def test_merging_sets_what_is_applied_and_keeps_the_rest(live: dict[str, Any], config: dict[str, Any]) -> None:
    """What differs afterwards from the live object are fields of the applied one, and none is missing."""
    shape = shape_of("", "v1", "Pod")
    result = merged(live, config, shape)
    difference = compare(live, result, shape)
    applied = set_of(config, shape)
    assert set(difference.changed.difference(applied).paths()) <= set(_containers(applied))
    assert merged(result, config, shape) == result


@given(_pods, _pods)
def test_pruning_undoes_a_merge(live: dict[str, Any], config: dict[str, Any]) -> None:
    """Where nobody had anything before, nothing is left."""
    shape = shape_of("", "v1", "Pod")
    added = compare(live, merged(live, config, shape), shape).changed
    rest = pruned(merged({}, config, shape), set_of(config, shape), None, shape)
    assert rest == {}
    assert FieldSet.decode(added.encode()).encode() == added.encode()


def _containers(fields: FieldSet, prefix: str = "") -> set[str]:
    """All places above and at the members of a set."""
    found = {prefix}
    for step, each in fields.children.items():
        shown = next(FieldSet(member=True).paths(), "")
        part = FieldSet()
        part.children[step] = FieldSet(member=True)
        shown = next(part.paths(prefix))
        found |= {shown} | _containers(each, shown)
    return found
