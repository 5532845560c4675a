"""What plugin classes declare: kinds, events, permissions and errors."""

from __future__ import annotations

import inspect

import pytest

from mooring.api import Node, Pod, Service
from mooring.api.meta import ObjectMeta
from mooring.config import PluginSpec, load_config
from mooring.framework import ActionType, ClusterEvent, CustomResource, Hint, Lister, Plugin, Rule
from mooring.framework.declarations import custom_kinds, declared_kinds, rules_of
from mooring.framework.points import check_methods, points_of
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod


class Report(CustomResource, group="example.com", version="v1", scope="Cluster"):
    zone: str = ""


class Ticket(CustomResource, group="example.com", version="v1"):
    open: bool = True


class OtherTicket(CustomResource, group="example.com", version="v1", kind="Ticket", plural="tickets"):
    open: bool = True


def made(kind: type[CustomResource], name: str, namespace: str = "", labels: dict[str, str] | None = None, **fields):
    return kind(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or {}), **fields)


class Reader(Plugin):
    reports = Lister(Report)

    def setup(self) -> None:
        self.by_zone = self.reports.index(lambda report: report.zone or None)

    def score(self, state, pod, node):
        return 0


def test_what_a_plugin_declares() -> None:
    class More(Reader):
        tickets = Lister(Ticket)
        permissions = (Rule(("metrics.k8s.io",), ("nodes",), ("get", "list")),)

    class Less(More):
        reports = None

    assert declared_kinds([More, Reader]) == (Report, Ticket)
    assert declared_kinds([Less]) == (Ticket,)
    assert custom_kinds([More]) == {("example.com/v1", "Report"): (Report,), ("example.com/v1", "Ticket"): (Ticket,)}
    assert [rule.document() for rule in rules_of([More, Reader])] == [
        {"apiGroups": ["example.com"], "resources": ["reports", "tickets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]},
    ]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Node, "read self.handle.nodes"),
        (Pod, "read self.handle.pods"),
        ("Report", "give it the class of a custom resource"),
        (CustomResource, "declare the kind as a subclass of CustomResource"),
        (Service, None),
        (Report, None),
    ],
)
def test_wrong_listers_are_found_at_load(kind, message) -> None:
    class Checked(Plugin):
        things = Lister(kind)

        def score(self, state, pod, node):
            return 0

    problems = check_methods(Checked)
    if message is None:
        assert problems == []
    else:
        assert [message in each.message for each in problems] == [True]
        assert problems[0].line == inspect.getsourcelines(Checked)[1] + 1


class Gate(Plugin):
    """Lets pods pass that have an open ticket of their name."""

    tickets = Lister(Ticket)

    @tickets.queueing_hint
    def helps(self, pod, old, new):
        return Hint.QUEUE if new is not None and new.name == pod.name else Hint.SKIP

    def filter(self, state, pod, node):
        ticket = self.tickets.get(pod.name, pod.namespace)
        return None if ticket is not None and ticket.open else "no ticket"

    def events_to_register(self):
        return [ClusterEvent("Node", ActionType.ADD)]


class Quiet(Gate):
    tickets = Lister(Ticket, events=ActionType(0))


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: %s}]}}
"""


def engine(plugin: type[Plugin]) -> tuple[Engine, list[float]]:
    now = [1000.0]
    specs = {plugin.name: PluginSpec(plugin.name, points_of(plugin), None)}
    config = load_config(CONFIG % plugin.name, source="test", plugins=specs)
    made = Engine(config, plugins={plugin.name: plugin}, clock=lambda: now[0])
    made.put(make_node("n1").obj())
    return made, now


@pytest.mark.parametrize(
    ("plugin", "ticket", "tried_again"),
    [
        (Gate, made(Ticket, "web", "default"), True),
        (Gate, made(Ticket, "other", "default"), False),
        (Gate, made(OtherTicket, "web", "default"), False),
        (Quiet, made(Ticket, "web", "default"), False),
    ],
)
def test_waiting_pods_are_tried_again_when_an_object_may_help(plugin, ticket, tried_again) -> None:
    scheduler, now = engine(plugin)
    scheduler.put(make_pod("web").obj())
    assert isinstance(scheduler.schedule_one(), FailedAttempt)
    scheduler.put(ticket)
    now[0] += 20
    scheduler.queue.tick(now[0])
    assert scheduler.queue.ready == tried_again
    if tried_again:
        assert isinstance(scheduler.schedule_one(), AssumedPod)
