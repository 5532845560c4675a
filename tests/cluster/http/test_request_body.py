"""Request bodies."""

from tests.cluster.conftest import PODS, Client, pod

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_unknown_fields_are_dropped_with_a_warning(client: Client) -> None:
    """Unless the client asks to be strict, or to be silent."""
    answer = await client.ask("POST", PODS, pod("a", foo=1))
    assert answer.warnings == ['299 - "unknown field \\"spec.foo\\""']
    assert "foo" not in answer.body["spec"]
    answer = await client.ask("POST", f"{PODS}?fieldValidation=Ignore", pod("b", foo=1))
    assert answer.warnings == []


async def test_doubled_fields_are_found(client: Client) -> None:
    """A decoder would silently take the last one."""
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}'
    answer = await client.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert 'duplicate field "metadata.name"' in answer.message


async def test_bodies_may_be_yaml(client: Client) -> None:
    """Dates in it stay text."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  when: '2026-01-01'\n  x: \"1\"\n"
    answer = await client.ask("POST", CONFIG_MAPS, body, content="application/yaml")
    assert answer.body["data"] == {"when": "2026-01-01", "x": "1"}
