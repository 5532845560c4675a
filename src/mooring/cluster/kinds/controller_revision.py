"""ControllerRevisions: the revision history of DaemonSets and StatefulSets, which `kubectl rollout undo` uses."""

import itertools
from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document, deep_copy, nested_field
from mooring.apiserver.field_rules import immutable
from mooring.apiserver.names import template_hash
from mooring.apiserver.workloads import REVISION_HASH, owner_reference
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Tools
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.workload import adopt_and_release, workload_selector
from mooring.cluster.table_printer import NONE, age, columns

REVISIONS: Final = "controllerrevisions.apps"


def current_revision(tools: Tools, owner: Document) -> Document:
    """Return the revision of the current template of a workload. A revision of an earlier rollout is used again."""
    adopt_and_release(tools, owner, REVISIONS, workload_selector(owner))
    found = _history(tools, owner)
    data = _data(owner["spec"]["template"])
    highest = max((each["revision"] for each in found), default=0)
    same = [each for each in found if each["data"] == data]
    if not same:
        return _create(tools, owner, data, highest + 1)
    for each in same[:-1]:
        tools.delete(REVISIONS, each["metadata"]["namespace"], each["metadata"]["name"])
    current = same[-1]
    if current["revision"] == highest:
        return current
    metadata = current["metadata"]
    fresh = {**current, "revision": highest + 1}
    return tools.store.put(REVISIONS, metadata["namespace"], metadata["name"], fresh).document


def revision_hash(revision: Document) -> str:
    """Return the hash of the template of a revision."""
    return str((revision["metadata"].get("labels") or {}).get(REVISION_HASH, ""))


def at_revision(tools: Tools, owner: Document, name: str) -> Document:
    """Return a workload with the template of one of its revisions, or unchanged if the revision does not exist."""
    found = tools.find(REVISIONS, owner["metadata"]["namespace"], name)
    template = nested_field(found, "data", "spec", "template")
    if not isinstance(template, dict):
        return owner
    plain = {key: value for key, value in template.items() if key != "$patch"}
    return {**owner, "spec": {**owner["spec"], "template": deep_copy(plain)}}


def trim_history(tools: Tools, owner: Document, live: Iterable[str]) -> None:
    """Delete the oldest revisions beyond the revision history limit, except the ones in use."""
    kept = set(live)
    unused = [each for each in _history(tools, owner) if each["metadata"]["name"] not in kept]
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    for each in unused[: max(len(unused) - limit, 0)]:
        tools.delete(REVISIONS, each["metadata"]["namespace"], each["metadata"]["name"])


def _history(tools: Tools, owner: Document) -> list[Document]:
    """Return the revisions of a workload, oldest first."""
    found = tools.index.controlled(owner["metadata"]["uid"], REVISIONS)
    return sorted(found, key=lambda each: (each["revision"], each["metadata"]["creationTimestamp"]))


def _data(template: Document) -> Document:
    # The data is a strategic merge patch.
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def _create(tools: Tools, owner: Document, data: Document, number: int) -> Document:
    metadata, template = owner["metadata"], owner["spec"]["template"]
    for collisions in itertools.count():
        short = template_hash(template, collisions or None)
        name = f"{metadata['name']}-{short}"
        if tools.find(REVISIONS, metadata["namespace"], name) is None:
            break
    labels = {**(nested_field(template, "metadata", "labels") or {}), REVISION_HASH: short}
    inner: Document = {"name": name, "labels": labels, "ownerReferences": [owner_reference(owner)]}
    if metadata.get("annotations"):
        inner["annotations"] = dict(metadata["annotations"])
    document = {"metadata": inner, "data": deep_copy(data), "revision": number}
    stored = tools.create(REVISIONS, metadata["namespace"], document)
    return document if stored is None else stored.document


def _row(document: Document, now: float) -> list[Any]:
    owner = next(iter(document["metadata"].get("ownerReferences", ())), None)
    shown = f"{owner['kind'].lower()}.{owner['apiVersion'].partition('/')[0]}/{owner['name']}" if owner else NONE
    return [document["metadata"]["name"], shown, document.get("revision", 0), age(document, now)]


CONTROLLER_REVISION: Final = Kind(
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    validate_update=lambda new, old: immutable(new.get("data"), old.get("data"), "data"),
    columns=columns("Name Controller Revision:integer Age", _row),
)
