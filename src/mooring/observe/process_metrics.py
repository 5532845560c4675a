"""Metrics that the scheduler and the controllers share: the build, the lease, and requests to the API server.

The lease and the requests have the names, labels and buckets of client-go.
"""

from __future__ import annotations

import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from mooring import __version__
from mooring.observe import metric_families
from mooring.observe.histograms import Histogram, Histograms

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES: Final = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)
_BY_VERB: Final = ("verb", "host")
#: The number of requests with the same result that are counted together.
_MANY: Final = 512


class _Requests:
    """The number of requests with one method and status, and the series of the method."""

    __slots__ = ("_counted", "_duration", "_limited", "_received", "_sent", "waiting")

    def __init__(self, duration: Histogram, limited: Histogram, sent: Histogram, received: Histogram | None) -> None:
        self._duration = duration
        self._limited = limited
        self._sent = sent
        #: None if there are no responses.
        self._received = received
        self._counted = 0
        #: The requests that are not counted yet: seconds, seconds of the rate limit, and the sizes of both bodies.
        self.waiting: list[tuple[float, float | None, int, int]] = []

    def count(self) -> int:
        """Count the requests that wait for that. Return the number of all. Call it with a lock."""
        size = len(self.waiting)  # another thread may add some meanwhile
        if size:
            seconds, limited, sent, received = zip(*self.waiting[:size], strict=True)
            del self.waiting[:size]
            self._counted += size
            self._duration.observe_many(seconds)
            self._limited.observe_many([each for each in limited if each is not None])
            self._sent.observe_many(sent)
            if self._received is not None:
                self._received.observe_many(received)
        return self._counted


class RestClientMetrics:
    """Counters of requests to one API server, by all clients of the process. Thread-safe: the lease has a thread."""

    def __init__(self, server: str) -> None:
        self._host = urlsplit(server).netloc
        self._lock = threading.Lock()
        #: The requests by status and method.
        self._requests: dict[tuple[int, str], _Requests] = {}
        self._retries: Counter[tuple[int, str]] = Counter()
        self._duration = Histograms(
            "rest_client_request_duration_seconds", "Duration of requests, in seconds.", _BY_VERB, _SECONDS
        )
        self._limited = Histograms(
            "rest_client_rate_limiter_duration_seconds",
            "Time that requests waited for the client's rate limit, in seconds.",
            _BY_VERB,
            _SECONDS,
        )
        self._sent = Histograms("rest_client_request_size_bytes", "Size of requests, in bytes.", _BY_VERB, _BYTES)
        self._received = Histograms("rest_client_response_size_bytes", "Size of responses, in bytes.", _BY_VERB, _BYTES)

    def request_finished(
        self, method: str, status: int, seconds: float, *, limited: float | None, sent: int, received: int
    ) -> None:
        """Count a request; a status of 0 means that there was no response.

        ``limited`` is how many seconds it waited for the rate limit before; None if that does not apply.
        """
        found = self._requests.get((status, method)) or self._requests_of(status, method)
        found.waiting.append((seconds, limited, sent, received))
        if len(found.waiting) >= _MANY:
            with self._lock:
                found.count()

    def request_retried(self, method: str, status: int) -> None:
        """Count a request that is sent again."""
        with self._lock:
            self._retries[status, method] += 1

    def _requests_of(self, status: int, method: str) -> _Requests:
        with self._lock:
            duration, limited, sent, received = (
                each.child(method, self._host) for each in (self._duration, self._limited, self._sent, self._received)
            )
            made = _Requests(duration, limited, sent, received if status else None)
            return self._requests.setdefault((status, method), made)

    def families(self) -> Iterator[Metric]:
        """Yield the metric families."""
        with self._lock:
            requests = metric_families.CounterMetricFamily(
                "rest_client_requests", "Requests by status code, method and host.", labels=("code", "method", "host")
            )
            for (status, method), found in self._requests.items():
                requests.add_metric((_code(status), method, self._host), found.count())
            retries = metric_families.CounterMetricFamily(
                "rest_client_request_retries",
                "Repeated requests by status code, verb and host.",
                labels=("code", "verb", "host"),
            )
            for (status, method), count in self._retries.items():
                retries.add_metric((_code(status), method, self._host), count)
            histograms = (self._duration, self._limited, self._sent, self._received)
            families: list[Metric] = [requests, retries, *(each.family() for each in histograms)]
        yield from families


def _code(status: int) -> str:
    return str(status) if status else "<error>"


class ProcessMetrics:
    """The metrics of a process that talks to an API server."""

    def __init__(
        self, client: RestClientMetrics, *, lease: str, is_leader: Callable[[], bool], emulates: str = ""
    ) -> None:
        """``lease`` is its name; empty without leader election. ``emulates`` is a release of kube-scheduler."""
        self._client = client
        self._emulates = emulates
        self._lease = lease
        self._is_leader = is_leader

    def register(self, registry: CollectorRegistry) -> None:
        """Add the metrics to those of the scheduler or the controllers."""
        registry.register(cast("Collector", self))

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the non-empty metric families."""
        build = metric_families.GaugeMetricFamily(
            "mooring_build_info",
            "Always 1; the labels have the versions of Mooring, of the emulated kube-scheduler, and of Python.",
            labels=("version", "emulated_version", "python_version"),
        )
        build.add_metric((__version__, self._emulates, platform.python_version()), 1)
        yield build
        if self._lease:
            leader = metric_families.GaugeMetricFamily(
                "leader_election_master_status", "Whether this process holds the lease.", labels=("name",)
            )
            leader.add_metric((self._lease,), int(self._is_leader()))
            yield leader
        yield from (family for family in self._client.families() if family.samples)
