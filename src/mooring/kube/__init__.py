"""A client for an API server: credentials, typed REST, list and watch, leader election, events.

Example::

    access = load_access(kubeconfig="~/.kube/config")  # or $KUBECONFIG, or the pod's service account
    async with Client(access, qps=50, burst=100) as client:
        node = await client.get(Node, "node-1")  # objects are the structs of mooring.api
        await client.bind(pod, "node-1")  # raises Conflict, NotFound, ...; see errors
        reflector = Reflector(client, Pod, on_changes)  # on_changes is called with lists of Change(old, new)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()

- `load_access` finds the cluster and the credentials: an `Access`. Log its `warnings` once.
- `Client` reads and writes; it limits its rate (binds first, then status and reads, then events), retries requests
  that are safe to retry, honors Retry-After, and raises subclasses of `KubeError`.
- `Reflector` lists and watches a kind and reports every change once and in order.
- `EventRecorder` sends events in the background and combines repeats into a series.
- `ElectionThread` holds a Lease on its own thread; `Leadership` is its counterpart on the event loop.
- `custom_resource` describes a custom kind. It can be used wherever a kind is expected.
"""

from mooring.kube.access import Access, ExecPlugin, User, load_access
from mooring.kube.api_resources import RESOURCES, Resource, custom_resource, resource_of
from mooring.kube.client_errors import (
    AccessError,
    AlreadyExists,
    ApiError,
    BadAnswer,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    NotLeading,
    OutcomeUnknown,
    ServerError,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from mooring.kube.decoding import Page
from mooring.kube.event_recorder import EventRecorder, reference
from mooring.kube.leader_election import ElectionSettings, ElectionThread, Leadership, LostLeaseError
from mooring.kube.object_store import Change
from mooring.kube.reflector import Reflector
from mooring.kube.request_limits import Priority, RateLimiter
from mooring.kube.rest import Client, PatchType
from mooring.kube.retry_backoff import Backoff
from mooring.kube.transport import Timeouts

__all__ = [
    "RESOURCES",
    "Access",
    "AccessError",
    "AlreadyExists",
    "ApiError",
    "Backoff",
    "BadAnswer",
    "BadRequest",
    "Change",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "ElectionSettings",
    "ElectionThread",
    "EventRecorder",
    "ExecPlugin",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeError",
    "Leadership",
    "LostLeaseError",
    "NotFound",
    "NotLeading",
    "OutcomeUnknown",
    "Page",
    "PatchType",
    "Priority",
    "RateLimiter",
    "Reflector",
    "Resource",
    "ServerError",
    "ServerTimeout",
    "Timeouts",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "User",
    "custom_resource",
    "load_access",
    "reference",
    "resource_of",
]
