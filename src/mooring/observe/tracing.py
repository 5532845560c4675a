"""OpenTelemetry traces of scheduling attempts: a span for each attempt, with a span for each extension point.

The extra `otel` installs what this needs. Spans are created from the timestamps that metrics use as well, after the
fact, so that an attempt is timed once, and a scheduler without tracing has no additional cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mooring import __version__
from mooring.api.pod import Pod
from mooring.framework.status import Code

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span, Tracer

    from mooring.observe.scheduler_metrics import ProfileMetrics

_HINT: Final = "traces need OpenTelemetry, which is not installed; run pip install 'mooring-scheduler[otel]'"
ALL: Final = 1_000_000


class TracingError(Exception):
    """Tracing cannot be started; the message has the reason and the remedy."""


class AttemptSpan:
    """The trace of one attempt. Times are those of ``time.perf_counter``."""

    __slots__ = ("_offset", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span, offset: float) -> None:
        self._tracer = tracer
        self._span = span
        self._offset = offset

    def point(self, name: str, started: float, ended: float, code: Code = Code.SUCCESS) -> None:
        """Add an extension point."""
        from opentelemetry.trace import set_span_in_context

        child = self._tracer.start_span(name, context=set_span_in_context(self._span), start_time=self._at(started))
        child.set_attribute("mooring.status", code.title)
        if code is Code.ERROR:
            _fail(child, "")
        child.end(self._at(ended))

    def end(self, outcome: str, *, node: str = "", message: str = "") -> None:
        """End the attempt: scheduled, unschedulable or error."""
        self._span.set_attribute("mooring.result", outcome)
        if node:
            self._span.set_attribute("k8s.node.name", node)
        if message:
            self._span.set_attribute("mooring.message", message)
        if outcome == "error":
            _fail(self._span, message)
        self._span.end(self._at(perf_counter()))

    def _at(self, moment: float) -> int:
        return int((moment + self._offset) * 1e9)


def _fail(span: Span, message: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, message or None))


class TracedPoints:
    """Records the extension points of a binding cycle as metrics and in a trace."""

    __slots__ = ("_ended", "_metrics", "_span")

    def __init__(self, metrics: ProfileMetrics | None, span: AttemptSpan) -> None:
        self._metrics = metrics
        self._span = span
        self._ended = 0.0

    def point(self, point: str, code: Code, seconds: float) -> None:
        """Record an extension point that ends now."""
        if self._metrics is not None:
            self._metrics.point(point, code, seconds)
        now = perf_counter()
        # Not before the one before it has ended: recording takes time too.
        self._span.point(point, max(self._ended, now - seconds), now, code)
        self._ended = now


class AttemptTracer:
    """Starts the traces of one scheduler."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("mooring", __version__)

    def start(self, pod: Pod, *, profile: str, attempt: int, started: float) -> AttemptSpan | None:
        """Start the trace of an attempt that began at a time of ``perf_counter``; None if it is not sampled."""
        offset = time.time() - perf_counter()
        span = self._tracer.start_span("Scheduling attempt", start_time=int((started + offset) * 1e9))
        if not span.is_recording():
            return None
        span.set_attributes(
            {
                "k8s.namespace.name": pod.namespace,
                "k8s.pod.name": pod.name,
                "k8s.pod.uid": pod.uid,
                "mooring.profile": profile,
                "mooring.attempt": attempt,
            }
        )
        return AttemptSpan(self._tracer, span, offset)

    def close(self) -> None:
        """Export the remaining spans and stop. Blocks while the collector does not answer."""
        self._provider.shutdown()


def make_tracer(
    endpoint: str, *, per_million: int = ALL, processor: Callable[[], SpanProcessor] | None = None
) -> AttemptTracer:
    """Return a tracer that sends spans to an OTLP collector over HTTP. Raises TracingError.

    ``per_million`` attempts are sampled of each million. ``processor`` replaces the exporter, for tests.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
    except ImportError:
        raise TracingError(_HINT) from None
    if not 0 <= per_million <= ALL:
        raise TracingError(f"--tracing-sampling-rate-per-million: {per_million} is not a number from 0 to {ALL}")
    resource = Resource.create({"service.name": "mooring", "service.version": __version__})
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(per_million / ALL), resource=resource, shutdown_on_exit=False
    )
    if processor is not None:
        provider.add_span_processor(processor())
    else:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces_url(endpoint))))
    return AttemptTracer(provider)


def traces_url(endpoint: str) -> str:
    """Return the URL that spans are posted to: that of the collector, with /v1/traces unless it has a path."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise TracingError(f"--tracing-endpoint: {endpoint!r} is not a URL such as http://collector:4318")
    return endpoint if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/traces"
