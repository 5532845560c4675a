"""Lists."""

import pytest

from tests.cluster.conftest import PODS, Client, make, pod

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def _pods(client: Client) -> None:
    for name, label, node in (("a", "x", ""), ("b", "y", "n1"), ("c", "x", "n1")):
        body = pod(name, **({"nodeName": node} if node else {}))
        body["metadata"]["labels"] = {"l": label}
        await client.create(PODS, body)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "abc"),
        ("labelSelector=l%3Dx", "ac"),
        ("labelSelector=l!%3Dx", "b"),
        ("labelSelector=l+in+(x,y),l+notin+(y)", "ac"),
        ("labelSelector=!l", ""),
        ("fieldSelector=spec.nodeName%3Dn1", "bc"),
        ("fieldSelector=spec.nodeName%3D,status.phase%3DPending", "a"),
        ("fieldSelector=metadata.name!%3Da&labelSelector=l%3Dx", "c"),
    ],
)
async def test_selectors(client: Client, query: str, expected: str) -> None:
    """By label and by field, in lists of one namespace and of all."""
    await _pods(client)
    for path in (PODS, "/api/v1/pods"):
        items = (await client.get(f"{path}?{query}"))["items"]
        assert "".join(each["metadata"]["name"] for each in items) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("fieldSelector=spec.foo%3D1", "field label not supported: spec.foo"),
        ("labelSelector=a%3Db%2C", "found '', expected: identifier after ','"),
        ("labelSelector=a+in+(b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    ],
)
async def test_bad_queries(client: Client, query: str, message: str) -> None:
    """Are refused in Kubernetes' words."""
    answer = await client.ask("GET", f"{PODS}?{query}")
    assert (answer.status, answer.message) == (400, message)


async def test_pages_show_one_moment(client: Client) -> None:
    """What is written while a client turns the pages is on none of them."""
    for number in range(7):
        await client.create(CONFIG_MAPS, make("v1", "ConfigMap", f"c{number}"))
    page = await client.get(f"{CONFIG_MAPS}?limit=3")
    version = page["metadata"]["resourceVersion"]
    assert page["metadata"]["remainingItemCount"] == 4
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "c55"))
    await client.delete(f"{CONFIG_MAPS}/c4")
    names = [each["metadata"]["name"] for each in page["items"]]
    while token := page["metadata"].get("continue"):
        page = await client.get(f"{CONFIG_MAPS}?limit=3&continue={token}")
        assert page["metadata"]["resourceVersion"] == version
        names += [each["metadata"]["name"] for each in page["items"]]
    assert names == [f"c{number}" for number in range(7)]


async def test_a_list_that_is_not_here_yet_times_out(client: Client) -> None:
    """As with a real API server that lags behind."""
    answer = await client.ask("GET", f"{PODS}?resourceVersion=999999")
    assert (answer.status, answer.body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
