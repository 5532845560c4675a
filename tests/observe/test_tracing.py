"""Traces of attempts: a span for each attempt, with a span for each extension point, and nothing without a tracer."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from mooring.config import default_config
from mooring.framework import Code, Status
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.observe.tracing import ALL, AttemptTracer, TracedPoints, TracingError, make_tracer, traces_url
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod


class Binder:
    def __init__(self, status: Status | None = None) -> None:
        self._status = status

    async def bind(self, binding: object) -> Status | None:
        return self._status


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def tracer_to(exporter: InMemorySpanExporter, per_million: int = ALL) -> AttemptTracer:
    return make_tracer("", per_million=per_million, processor=lambda: SimpleSpanProcessor(exporter))


async def attempt(tracer: AttemptTracer | None, *, cpu: str = "1", status: Status | None = None) -> Engine:
    """One attempt on two nodes, with its binding cycle."""
    observer = Observer(metrics=SchedulerMetrics(), tracer=tracer)
    engine = Engine(default_config(), binder=Binder(status), rng=random.Random(0), observer=observer)
    for name in ("a", "b"):
        engine.put(make_node(name).capacity(cpu="4", memory="8Gi", pods=10).obj())
    engine.put(make_pod("web").req(cpu=cpu).obj())
    outcome: Any = engine.schedule_one()
    if hasattr(outcome, "node_name"):
        await engine.bind(outcome)
    return engine


def spans(exporter: InMemorySpanExporter) -> Iterator[ReadableSpan]:
    yield from exporter.get_finished_spans()


def children(exporter: InMemorySpanExporter, root: ReadableSpan) -> list[str]:
    assert root.context is not None
    found = [each for each in spans(exporter) if each.parent is not None]
    assert all(each.parent is not None and each.parent.span_id == root.context.span_id for each in found)
    for each in found:
        assert root.start_time is not None
        assert each.start_time is not None
        assert each.end_time is not None
        assert root.end_time is not None
        assert root.start_time <= each.start_time <= each.end_time <= root.end_time
    return [each.name for each in sorted(found, key=lambda each: each.start_time or 0)]


def root_of(exporter: InMemorySpanExporter) -> ReadableSpan:
    (root,) = (each for each in spans(exporter) if each.parent is None)
    assert root.name == "Scheduling attempt"
    return root


async def test_a_bound_pod_has_a_span_for_each_extension_point(exporter: InMemorySpanExporter) -> None:
    await attempt(tracer_to(exporter))
    root = root_of(exporter)
    assert children(exporter, root) == [
        "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind",
        "PostBind",
    ]  # fmt: skip
    told = dict(root.attributes or {})
    assert told.pop("k8s.pod.uid")
    assert told == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "web",
        "mooring.profile": "default-scheduler",
        "mooring.attempt": 1,
        "mooring.result": "scheduled",
    }
    assert root.resource.attributes["service.name"] == "mooring"


async def test_an_unschedulable_pod_has_the_message_and_post_filter(exporter: InMemorySpanExporter) -> None:
    await attempt(tracer_to(exporter), cpu="40")
    root = root_of(exporter)
    assert children(exporter, root) == ["PreFilter", "Filter", "PostFilter"]
    assert (root.attributes or {})["mooring.result"] == "unschedulable"
    assert "0/2 nodes are available" in str((root.attributes or {})["mooring.message"])
    assert root.status.status_code is StatusCode.UNSET


async def test_a_failed_bind_is_an_error(exporter: InMemorySpanExporter) -> None:
    await attempt(tracer_to(exporter), status=Status.error("connection refused"))
    root = root_of(exporter)
    assert root.status.status_code is StatusCode.ERROR
    assert "connection refused" in (root.status.description or "")
    (bind,) = (each for each in spans(exporter) if each.name == "Bind")
    assert bind.status.status_code is StatusCode.ERROR


async def test_attempts_that_are_not_sampled_leave_nothing(exporter: InMemorySpanExporter) -> None:
    engine = await attempt(tracer_to(exporter, per_million=0))
    assert list(spans(exporter)) == []
    assert engine.observer is not None
    assert engine.observer._spans == {}


async def test_without_a_tracer_there_are_no_spans() -> None:
    engine = await attempt(None)
    assert engine.observer is not None
    assert engine.observer._spans == {}


def test_opentelemetry_is_imported_only_for_traces() -> None:
    code = "import sys, mooring.live; print([each for each in sys.modules if 'opentelemetry' in each])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("http://collector:4318/custom", "http://collector:4318/custom"),
    ],
)
def test_the_address_of_the_collector(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


@pytest.mark.parametrize(("endpoint", "per_million"), [("collector:4317", 1), ("", 1), ("http://collector:4318", -1)])
def test_wrong_settings_name_the_flag(endpoint: str, per_million: int) -> None:
    with pytest.raises(TracingError, match=r"--tracing-(endpoint|sampling-rate-per-million): "):
        make_tracer(endpoint, per_million=per_million)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingError, match=r"pip install 'mooring-scheduler\[otel\]'"):
        make_tracer("http://collector:4318")


def test_the_points_of_a_binding_cycle_follow_one_another(exporter: InMemorySpanExporter) -> None:
    """Also if the time that it takes to record one of them counts for the next."""
    span = tracer_to(exporter).start(make_pod("web").obj(), profile="p", attempt=1, started=perf_counter())
    assert span is not None
    points = TracedPoints(None, span)
    for name in ("PreBind", "Bind"):
        points.point(name, Code.SUCCESS, 1.0)
    first, second = spans(exporter)
    assert first.end_time is not None
    assert second.start_time is not None
    assert first.end_time <= second.start_time
