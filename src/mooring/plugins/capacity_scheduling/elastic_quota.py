"""ElasticQuota, the custom resource that guarantees a namespace something and lets it borrow more."""

from __future__ import annotations

from typing import Annotated

from mooring.api.quantity import QuantityLike
from mooring.framework import CustomResource, Meta


class ElasticQuota(CustomResource, group="scheduling.x-k8s.io", version="v1alpha1", short_names=("eq", "eqs")):
    """What a namespace is guaranteed, and what it may use at the most. A namespace has one."""

    class Spec:
        """The two limits."""

        min: Annotated[
            dict[str, QuantityLike] | None,
            Meta(description="Guaranteed; others may use it while it lies idle.", examples=[{"cpu": "4"}]),
        ] = None
        max: Annotated[
            dict[str, QuantityLike] | None,
            Meta(
                description="Never more than this; resources not named are forbidden. Left out: no limit.",
                examples=[{"cpu": "8", "memory": "16Gi"}],
            ),
        ] = None

    class Status:
        """What is used; the controller writes it."""

        used: dict[str, QuantityLike] | None = None

    spec: Spec = Spec()
    status: Status = Status()
