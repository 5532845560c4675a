"""The embedded cluster refuses what the rules of the definitions and the policies refuse on a real API server.

tests/e2e/test_admission.py sends the same requests to a real API server.
"""

from __future__ import annotations

import pytest

from mooring.controllers.definitions.validation_rules import with_rules
from mooring.kube import ApiError
from tests.apiserver.volcano_admission.refused_requests import ACCEPTED, REFUSED, request_of
from tests.controllers.world import World


async def test_the_embedded_cluster_refuses_the_same_requests(world: World) -> None:
    different = []
    for by, resource, document, message, patch in REFUSED:
        path, body = request_of(resource, document, "default")
        try:
            await world.post(path, **body)
            if patch is not None:
                await world.merge(f"{path}/{body['metadata']['name']}", patch)
        except ApiError as error:
            if message not in str(error):
                different.append((by, message, str(error)))
        else:
            different.append((by, message, "accepted"))
        if patch is not None or (different and different[-1][-1] == "accepted"):
            await world.client.send("DELETE", f"{path}/{body['metadata']['name']}")
    assert not different


async def test_the_embedded_cluster_accepts_the_same_requests(world: World) -> None:
    for resource, document, patch in ACCEPTED:
        path, body = request_of(resource, document, "default")
        place = f"{path}/{body['metadata']['name']}"
        await world.post(path, **body)
        if patch is not None:
            await world.merge(place, patch)
        await world.client.send("DELETE", place)


def test_rules_are_added_to_the_field_at_their_path() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    assert with_rules(schema, {"": {"x": 1}, "a[]": {"maxLength": 2}}) == {
        "properties": {"a": {"type": "array", "items": {"type": "string", "maxLength": 2}}},
        "x": 1,
    }
    with pytest.raises(KeyError):
        with_rules(schema, {"b": {}})
