"""A step of a scenario: one change to the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tests.e2e.controlplane import Object

Action = Literal["create", "patch", "delete"]


@dataclass(frozen=True)
class Step:
    """One change to the cluster. `path` is of a collection for `create`, of an object otherwise."""

    action: Action
    path: str
    body: Object = field(default_factory=dict)

    @property
    def pod(self) -> str:
        """The name of the pod that the step creates; empty for any other step."""
        return str(self.body["metadata"]["name"]) if self.action == "create" and self.path.endswith("/pods") else ""

    def __str__(self) -> str:
        return f"{self.action} {self.path} {self.pod or self.body or ''}".strip()
