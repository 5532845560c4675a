"""Which rules of validation each resource has."""

from typing import Final

from mooring.cluster.strategy import Validate, ValidateUpdate

#: By the name under which the store files the objects: what is wrong with one, and what may not change.
RULES: Final[dict[str, tuple[Validate, ValidateUpdate]]] = {}
