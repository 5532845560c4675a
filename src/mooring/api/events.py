"""Events of events.k8s.io/v1, and of the core group."""

from msgspec import field

from mooring.api.meta import Model, NamespacedObject, ObjectReference


class EventSeries(Model, kw_only=True):
    """The count of a repeated event and its last time."""

    count: int = 0
    last_observed_time: str | None = None


class Event(NamespacedObject, kw_only=True):
    """An event about an object."""

    api_version: str = field(default_factory=lambda: "events.k8s.io/v1")
    kind: str = field(default_factory=lambda: "Event")
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class EventSource(Model, kw_only=True):
    """The component that reports an event."""

    component: str = ""
    host: str = ""


class CoreEvent(NamespacedObject, kw_only=True):
    """An event of the core group. It has times and a count, which events.k8s.io/v1 refuses in new events."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Event")
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    type: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
