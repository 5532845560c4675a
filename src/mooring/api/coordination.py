"""Leases, for leader election."""

from msgspec import field

from mooring.api.meta import Model, NamespacedObject


class LeaseSpec(Model, kw_only=True):
    """The holder of a lease and its times."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(NamespacedObject, kw_only=True):
    """A lease."""

    api_version: str = field(default_factory=lambda: "coordination.k8s.io/v1")
    kind: str = field(default_factory=lambda: "Lease")
    spec: LeaseSpec = LeaseSpec()
