"""Definitions of built-in kinds."""

from mooring.cluster.schema.shape import definitions


def test_every_definition_has_a_shape() -> None:
    """So that no kind fails only when somebody uses it."""
    for name in definitions().raw:
        assert definitions().shape(name).kind
