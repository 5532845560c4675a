"""PodDevices: the claims of a pod in one attempt."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from mooring.api.devices import ResourceClaim, ResourceClaimConsumerReference
from mooring.api.node_selectors import NodeMatcher
from mooring.framework import StateKey, Status
from mooring.plugins.dynamic_resources.claim_binder import PodBinding
from mooring.plugins.dynamic_resources.device_choice import DeviceChoice
from mooring.plugins.dynamic_resources.device_state import NodePlan, Outcome
from mooring.plugins.dynamic_resources.node_allocatable import Demand


class PodDevices:
    """The claims of a pod in one attempt. Clones share it: it does not depend on other pods."""

    __slots__ = (
        "binding",
        "choice",
        "claims",
        "demands",
        "errors",
        "filtered",
        "has_old_statuses",
        "left_over",
        "matchers",
        "metered",
        "plan_of",
        "plans",
        "resources",
        "special",
        "to_allocate",
        "unavailable",
        "unshareable",
        "users",
    )

    def __init__(self, claims: list[ResourceClaim], special: ResourceClaim | None) -> None:
        self.claims = [*claims, special] if special is not None else claims
        #: The place of the claim for extended resources.
        self.special = len(claims) if special is not None else None
        #: Whether that claim is left over from an earlier attempt.
        self.left_over = special is not None and bool(special.spec.devices.requests)
        #: The places of claims without an allocation.
        self.to_allocate = [n for n, each in enumerate(self.claims) if each.status.allocation is None]
        #: Place of an allocated claim -> its nodes.
        self.matchers: dict[int, NodeMatcher] = {}
        #: The extended resources that the pod requests.
        self.resources: tuple[str, ...] = ()
        #: The extended resources that classes provide on a node -> what is to be allocated there.
        self.plans: dict[tuple[str, ...], NodePlan] = {}
        #: The places of claims that are not available on some node.
        self.unavailable: set[int] = set()
        #: Node -> the outcome of a search that is not cached.
        self.errors: dict[str, Outcome] = {}
        self.filtered = False
        self.binding: PodBinding | None = None
        #: Returns what is to be allocated on a row.
        self.plan_of: Callable[[int], NodePlan | None] = lambda _row: None
        #: Who uses each claim of the pod, if that can be its group.
        self.users: tuple[ResourceClaimConsumerReference, ...] = ()
        #: The places of allocated claims whose devices take resources of some node (DRANodeAllocatableResources).
        self.metered: tuple[int, ...] = ()
        #: Place of a claim that another pod uses -> why the pod cannot use it too.
        self.unshareable: dict[int, Status] = {}
        #: Whether the pod's status has amounts of an attempt that failed.
        self.has_old_statuses = False
        #: The devices that the pod would get, or has -> what it needs of their node.
        self.demands: dict[Hashable, Demand] = {}
        #: Chooses devices, if a plugin scores allocations.
        self.choice: DeviceChoice | None = None

    @property
    def has_user_claims(self) -> bool:
        """Whether the pod has claims besides that for extended resources."""
        return self.special != 0


DEVICES: Final[StateKey[PodDevices]] = StateKey("DynamicResources")
