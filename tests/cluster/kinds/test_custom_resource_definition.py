"""CustomResourceDefinitions."""

from tests.cluster.conftest import Client


async def test_rules_that_are_not_evaluated_are_said(live: Client) -> None:
    """When the definition is made."""
    from tests.cluster.test_custom_resources import DEFINITIONS, definition

    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.n > 0"}]
    answer = await live.ask("POST", DEFINITIONS, body)
    assert answer.status == 201
    assert any("does not evaluate these rules (CEL)" in each for each in answer.warnings)
