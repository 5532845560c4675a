"""extender: callbacks that an HTTP server answers in JSON.

The session waits for each answer, up to ``extender.httpTimeout``, because the answer is part of the decision. This is
the only session plugin that does I/O.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mooring.batch.callbacks import ABSTAIN, PERMIT, REJECT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.extender_wire import job_json, node_json, queue_json, task_json
from mooring.batch.queue import QueueInfo
from mooring.batch.registrations import Handler
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.task import TaskInfo
from mooring.config.durations import DurationError, parse_duration
from mooring.framework.status import Code, Status

#: The maximum length of an answer; longer answers are errors.
_MOST_BYTES: Final = 10 << 20


class ExtenderFailure(Exception):
    """An extender returned no usable answer; the message has the reason."""


class Reply:
    """An answer; a field that is missing or of another type has its zero value, as in Go."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def text(self, key: str) -> str:
        """Return a string, or an empty one."""
        value = self._values.get(key)
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int:
        """Return an integer, or 0."""
        value = self._values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def flag(self, key: str) -> bool:
        """Return whether a field is true."""
        return self._values.get(key) is True

    def numbers(self, key: str) -> dict[str, float] | None:
        """Return numbers by name; None if there is no mapping."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            return None
        return {str(name): float(each) for name, each in value.items() if isinstance(each, int | float)}

    def uids(self, key: str) -> list[str]:
        """Return the ``UID`` of each object of a list."""
        value = self._values.get(key)
        return [str(each["UID"]) for each in value if isinstance(each, dict) and "UID" in each] if value else []


def call(url: str, body: dict[str, Any], seconds: float) -> Reply:
    """Send a JSON document and return the answer. Raises ExtenderFailure."""
    if not url.startswith(("http://", "https://")):
        raise ExtenderFailure(f"extender.urlPrefix: {url!r} is not an http or https address")
    request = urllib.request.Request(
        url, msgspec.json.encode(body), {"Content-Type": "application/json"}, method="POST"
    )
    # The address is configured explicitly, so the proxy settings of the environment do not apply.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=seconds) as answer:
            data = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise ExtenderFailure(f"{url} answers with status {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ExtenderFailure(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if len(data) > _MOST_BYTES:
        raise ExtenderFailure(f"{url} answers with more than {_MOST_BYTES >> 20} MB")
    try:
        values = msgspec.json.decode(data) if data.strip() else {}
    except msgspec.DecodeError as error:
        raise ExtenderFailure(f"{url} does not answer with JSON: {error}") from None
    return Reply(values if isinstance(values, dict) else {})


_SECONDS: Final = 1.0
Victims = tuple[list[TaskInfo], int]


class Extender(BatchPlugin):
    """Calls the server at ``extender.urlPrefix`` for every callback for which the arguments name a verb."""

    name = "extender"

    def on_session_open(self, session: Session) -> None:
        """Notify the extender, and register the callbacks that have a verb."""
        self._session = session
        self._prefix = self._text("urlPrefix").rstrip("/")
        self._ignorable = self.arguments.boolean("extender.ignorable", False)
        self._seconds = self._timeout()
        managed = self.arguments.get("extender.managedResources")
        self._managed = frozenset(map(str, managed)) if isinstance(managed, list) else frozenset()
        verb = self._text("onSessionOpenVerb")
        if verb and self._call(verb, self._session_json()) is None and not self._ignorable:
            return
        registrations: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
            "predicate": (session.add_predicate, self._predicate),
            "preemptable": (session.add_preemptable, lambda *given: self._victims("preemptableVerb", *given)),
            "reclaimable": (session.add_reclaimable, lambda *given: self._victims("reclaimableVerb", *given)),
            "jobEnqueueable": (session.add_job_enqueueable, self._vote_enqueue),
            "queueOverused": (session.add_overused, self._overused),
            "jobReady": (session.add_job_ready, self._is_ready),
        }
        for name, (register, callback) in registrations.items():
            if self._text(f"{name}Verb"):
                register(callback)
        if self._text("prioritizeVerb"):
            session.add_batch_node_order(self._prioritize)
        session.add_event_handler(self._handler("allocateFuncVerb"), self._handler("deallocateFuncVerb"))

    def on_session_close(self, session: Session) -> None:
        """Notify the extender."""
        if self._text("onSessionCloseVerb"):
            self._call(self._text("onSessionCloseVerb"), {})

    # Arguments

    def _text(self, name: str) -> str:
        value = self.arguments.get(f"extender.{name}")
        return value if isinstance(value, str) else ""

    def _timeout(self) -> float:
        try:
            return parse_duration(self._text("httpTimeout")) / 1e9
        except DurationError:
            return _SECONDS

    def _concerns(self, task: TaskInfo) -> bool:
        """Return whether the extender manages a resource of the pod; without a list it manages all."""
        if not self._managed:
            return True
        spec = task.pod.spec
        return any(
            not self._managed.isdisjoint({*each.resources.requests, *each.resources.limits})
            for each in (*spec.containers, *spec.init_containers)
        )

    # Calls

    def _call(self, verb: str, body: dict[str, Any]) -> Reply | None:
        """Return the answer; None if there is none, with a warning."""
        try:
            return call(f"{self._prefix}/{verb}", body, self._seconds)
        except ExtenderFailure as failure:
            self._session.warnings.append(f"extender: {failure}")
            return None

    def _session_json(self) -> dict[str, Any]:
        session = self._session
        nodes = {node.name: node_json(node) for node in session.nodes.values()}
        return {
            "Jobs": {job.uid: job_json(job) for job in session.jobs.values()},
            "Nodes": nodes,
            "Queues": {queue.name: queue_json(queue) for queue in session.queues.values()},
            "NamespaceInfo": {},
            "RevocableNodes": {node.name: nodes[node.name] for node in session.nodes.values() if node.revocable_zone},
            "NodeList": None,
        }

    def _predicate(self, task: TaskInfo, node: SessionNode) -> Status | None:
        if not self._concerns(task):
            return None
        reply = self._call(self._text("predicateVerb"), {"task": task_json(task), "node": node_json(node)})
        if reply is None:
            return None if self._ignorable else Status.unschedulable("the extender does not answer")
        reason = reply.text("status")
        if not reason:
            return None
        code = reply.integer("code")
        return Status(Code(code) if code in range(1, 6) else Code.ERROR, (reason,))

    def _prioritize(self, task: TaskInfo, nodes: SessionNodes) -> dict[str, float] | str:
        if not self._concerns(task):
            return {}
        body = {"task": task_json(task), "nodes": [node_json(node) for node in nodes]}
        reply = self._call(self._text("prioritizeVerb"), body)
        if reply is None:
            return {} if self._ignorable else "the extender does not answer"
        scores = reply.numbers("nodeScore")
        problem = reply.text("errorMessage")
        return scores if scores is not None and not problem else problem or "the extender gives no scores"

    def _victims(self, verb: str, evictor: TaskInfo, candidates: list[TaskInfo]) -> Victims:
        if not self._concerns(evictor):
            return [], ABSTAIN
        body = {"evictor": task_json(evictor), "evictees": [task_json(each) for each in candidates]}
        reply = self._call(self._text(verb), body)
        if reply is None:
            return [], PERMIT if self._ignorable else REJECT
        named = set(reply.uids("victims"))
        return [task for task in candidates if task.uid in named], reply.integer("status")

    def _vote_enqueue(self, job: JobInfo) -> int:
        reply = self._call(self._text("jobEnqueueableVerb"), {"job": job_json(job)})
        if reply is None:
            return PERMIT if self._ignorable else REJECT
        return reply.integer("status")

    def _overused(self, queue: QueueInfo) -> bool:
        reply = self._call(self._text("queueOverusedVerb"), {"queue": queue_json(queue)})
        return not self._ignorable if reply is None else reply.flag("overused")

    def _is_ready(self, job: JobInfo) -> bool:
        """Return whether a job is ready; without an answer, whether errors are ignored (in Volcano the opposite)."""
        reply = self._call(self._text("jobReadyVerb"), {"job": job_json(job)})
        return self._ignorable if reply is None else reply.flag("status")

    def _handler(self, verb: str) -> Handler | None:
        if not self._text(verb):
            return None

        def notify(task: TaskInfo) -> str | None:
            if not self._concerns(task):
                return None
            reply = self._call(self._text(verb), {"task": task_json(task)})
            if reply is None:
                return None if self._ignorable else "the extender does not answer"
            return reply.text("errorMessage") or None

        return notify
