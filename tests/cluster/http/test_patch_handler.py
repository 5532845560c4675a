"""PATCH requests."""

import pytest

from tests.cluster.conftest import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Client, make

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("content", "patch", "expected"),
    [
        (MERGE_PATCH, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (STRATEGIC_PATCH, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (JSON_PATCH, [{"op": "replace", "path": "/data", "value": {"z": "9"}}], {"z": "9"}),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "move", "from": "/data/a", "path": "/data/q"}],
            {"b": "2", "q": "1"},
        ),
    ],
)
async def test_patches(client: Client, content: str, patch: object, expected: dict[str, str]) -> None:
    """Of three kinds; the fourth is server-side apply."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a", data={"a": "1", "b": "2"}))
    assert (await client.patch(f"{CONFIG_MAPS}/a", patch, content))["data"] == expected


async def test_a_patch_with_a_version_is_conditional(client: Client) -> None:
    """As `kubectl edit` sends it."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a"))
    answer = await client.ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"resourceVersion": "1"}}, content=MERGE_PATCH)
    assert answer.status == 409
