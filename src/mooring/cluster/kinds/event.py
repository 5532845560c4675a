"""Events, which are served in two groups: rules, and the controller that deletes expired ones."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field, seconds_of
from mooring.apiserver.field_errors import FieldError, invalid, required
from mooring.apiserver.field_rules import label_name
from mooring.apiserver.object_names import path_segment
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.selectors import field_reader, text_of
from mooring.cluster.store import ADDED, Change
from mooring.cluster.table_printer import columns, since

LIFETIME: Final = 3600.0


_REFERENCE_FIELDS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: Final = {
    **{f"involvedObject.{each}": field_reader("involvedObject", each) for each in _REFERENCE_FIELDS},
    # The names of the same fields in events.k8s.io.
    **{f"regarding.{each}": field_reader("involvedObject", each) for each in _REFERENCE_FIELDS},
    "reason": field_reader("reason"),
    "type": field_reader("type"),
    "source": lambda document: text_of(
        nested_field(document, "source", "component") or document.get("reportingComponent")
    ),
    "reportingComponent": field_reader("reportingComponent"),
    "reportingController": field_reader("reportingComponent"),
}


def _set_event_defaults(document: Document) -> None:
    document.setdefault("metadata", {})
    document.setdefault("source", {})
    document.setdefault("reportingComponent", "")
    document.setdefault("reportingInstance", "")
    for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
        document.setdefault(key, None)


def _event_errors(document: Document) -> list[FieldError]:
    target = (document.get("involvedObject") or {}).get("namespace", "")
    namespace = document["metadata"].get("namespace", "")
    if target and target != namespace:
        return [invalid("involvedObject.namespace", target, "does not match event.namespace")]
    if not target and namespace not in {"", "default", "kube-system"}:
        return [invalid("involvedObject.namespace", target, "does not match event.namespace")]
    return []


def new_event_errors(document: Document) -> list[FieldError]:
    """Return the errors of an event of events.k8s.io, which has more required fields than one of the core group."""
    errors: list[FieldError] = [] if document.get("eventTime") else [required("eventTime")]
    controller = document.get("reportingController", "")
    if not controller:
        errors.append(required("reportingController"))
    errors += label_name(controller, "reportingController")
    errors += [required(key) for key in ("reportingInstance", "action", "reason") if not document.get(key)]
    kind = document.get("type", "")
    return errors if kind in {"Normal", "Warning"} else [*errors, invalid("type", "", f"has invalid value: {kind}")]


def _event_row(document: Document, now: float) -> list[Any]:
    first = since(document.get("firstTimestamp") or document.get("eventTime"), now)
    last = since(document["lastTimestamp"], now) if document.get("lastTimestamp") else first
    series, count = document.get("series"), document.get("count") or 1
    if series:
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    target = document.get("involvedObject", {})
    source = document.get("source", {})
    component = source.get("component") or document.get("reportingComponent", "")
    host = source.get("host") or document.get("reportingInstance", "")
    name = target.get("name")
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        target.get("kind", "").lower() + (f"/{name}" if name else ""),
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        document.get("message", "").strip(),
        first,
        count,
        document["metadata"]["name"],
    ]


class EventExpiryController(Controller):
    """A controller that deletes events after an hour. At most one reconciliation is scheduled at a time."""

    name = "event-expiry-controller"
    watched = frozenset({"events"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return a key for the first event. After that, `reconcile` returns the next time."""
        if storage != "events" or change.kind != ADDED or self._planned:
            return []
        self._planned = True
        return [("", "")]

    _planned = False

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Delete expired events, and return the time until the next one expires."""
        now = self.tools.now()
        youngest_to_go = now - LIFETIME
        oldest = now
        for stored in list(self.tools.store.objects("events")):
            document = stored.document
            last = _last_seen(document)
            if last <= youngest_to_go:
                metadata = document["metadata"]
                self.tools.store.remove("events", metadata["namespace"], metadata["name"])
            else:
                oldest = min(oldest, last)
        self._planned = self.tools.store.count("events") > 0
        return max(oldest + LIFETIME - now, 60.0) if self._planned else None


def _last_seen(event: Document) -> float:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return seconds_of(text or event["metadata"]["creationTimestamp"])


EVENT: Final = Kind(
    Resource("", "v1", "events", "Event", short_names=("ev",)),
    (Resource("events.k8s.io", "v1", "events", "Event", short_names=("ev",), storage="events"),),
    set_defaults=_set_event_defaults,
    validate=_event_errors,
    name_errors=path_segment,
    columns=columns("Last_Seen Type Reason Object +Subobject +Source Message +First_Seen +Count +Name", _event_row),
    fields=_FIELDS,
    controllers=(EventExpiryController,),
)
