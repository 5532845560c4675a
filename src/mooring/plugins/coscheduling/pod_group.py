"""PodGroup: the custom resource with the number of pods of a group that must be placed together."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from mooring.api.pod import Pod
from mooring.api.quantity import QuantityLike
from mooring.framework import CustomResource, Meta

#: The label of a pod that names its group, in the pod's namespace.
LABEL: Final = "scheduling.x-k8s.io/pod-group"


class PodGroup(
    CustomResource,
    group="scheduling.x-k8s.io",
    version="v1alpha1",
    short_names=("pg", "pgs"),
    columns={
        "Phase": "status.phase",
        "MinMember": "spec.min_member",
        "Running": "status.running",
        "Succeeded": "status.succeeded",
        "Failed": "status.failed",
    },
):
    """A group of pods that are placed together or not at all."""

    class Spec:
        """The requirements of the group."""

        min_member: Annotated[
            int | None,
            Meta(
                description="The number of pods that must have a node before any is bound.",
                extra_json_schema={"minimum": 1, "format": "int32", "examples": [3]},
            ),
        ] = None
        min_resources: Annotated[
            dict[str, QuantityLike] | None,
            Meta(
                description="The total resources that must be available before the group is scheduled.",
                examples=[{"cpu": "3"}],
            ),
        ] = None
        schedule_timeout_seconds: Annotated[
            int | None,
            Meta(
                description="How long the pods of the group wait for each other.",
                extra_json_schema={"format": "int32", "examples": [30]},
            ),
        ] = None

    class Status:
        """The state of the group. The controller writes it."""

        phase: str = ""
        occupied_by: str = ""
        running: int | None = None
        succeeded: int | None = None
        failed: int | None = None
        schedule_start_time: datetime | None = None

    spec: Spec = Spec()
    status: Status = Status()

    @property
    def min_member(self) -> int:
        """The number of pods that must be placed together."""
        return self.spec.min_member or 0


def group_key(pod: Pod) -> str:
    """Return ``namespace/name`` of the pod's group; empty if it has none."""
    name = pod.labels.get(LABEL, "")
    return f"{pod.namespace}/{name}" if name else ""
