"""The weights of resources in the arguments of plugins that score by utilization."""

from __future__ import annotations

from mooring.batch.arguments import Arguments
from mooring.batch.resource import CPU, MEMORY


def resource_weights(arguments: Arguments, prefix: str) -> dict[str, int]:
    """Return the weights by resource, from ``PREFIX.cpu``, ``PREFIX.memory`` and ``PREFIX.resources[.NAME]``."""

    def weight(key: str) -> int:
        given = arguments.integer(key, 1)
        return 1 if given < 0 else given

    listed = arguments.get(f"{prefix}.resources")
    names = [name.strip() for name in listed.split(",")] if isinstance(listed, str) else []
    weights = {name: weight(f"{prefix}.resources.{name}") for name in names if name}
    weights[CPU] = weight(f"{prefix}.cpu")
    weights[MEMORY] = weight(f"{prefix}.memory")
    return weights
