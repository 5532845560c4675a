"""The metrics that the scheduler and the controllers share have client-go's names, labels and buckets."""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry

from mooring import __version__
from mooring.observe.process_metrics import ProcessMetrics, RestClientMetrics


def scrape(*, lease: str = "", leads: bool = False) -> tuple[CollectorRegistry, RestClientMetrics]:
    client, registry = RestClientMetrics("https://10.0.0.1:6443/base"), CollectorRegistry()
    ProcessMetrics(client, lease=lease, is_leader=lambda: leads, emulates="1.36").register(registry)
    return registry, client


def test_the_build_is_described() -> None:
    registry, _ = scrape()
    (sample,) = [each for family in registry.collect() for each in family.samples]
    assert (sample.name, sample.value) == ("mooring_build_info", 1)
    assert sample.labels["version"] == __version__
    assert sample.labels["emulated_version"] == "1.36"
    assert set(sample.labels) == {"version", "emulated_version", "python_version"}


def test_the_lease_is_reported_if_there_is_one() -> None:
    for leads in (False, True):
        registry, _ = scrape(lease="mooring", leads=leads)
        assert registry.get_sample_value("leader_election_master_status", {"name": "mooring"}) == leads
    registry, _ = scrape()
    assert registry.get_sample_value("leader_election_master_status", {"name": ""}) is None


def test_requests_are_counted_by_code_method_and_host() -> None:
    registry, client = scrape()
    client.request_finished("GET", 200, 0.02, limited=0.3, sent=0, received=100)
    client.request_finished("GET", 200, 0.04, limited=None, sent=0, received=0)  # a watch
    client.request_finished("POST", 0, 40.0, limited=0.0, sent=70, received=0)
    client.request_retried("POST", 0)
    host = "10.0.0.1:6443"

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**labels, "host": host})

    assert value("rest_client_requests_total", code="200", method="GET") == 2
    assert value("rest_client_requests_total", code="<error>", method="POST") == 1
    assert value("rest_client_request_retries_total", code="<error>", verb="POST") == 1
    assert value("rest_client_request_duration_seconds_bucket", verb="GET", le="0.005") == 0
    assert value("rest_client_request_duration_seconds_bucket", verb="GET", le="0.025") == 1
    assert value("rest_client_request_duration_seconds_bucket", verb="POST", le="60.0") == 1
    assert value("rest_client_rate_limiter_duration_seconds_sum", verb="GET") == 0.3
    assert value("rest_client_rate_limiter_duration_seconds_count", verb="GET") == 1
    assert value("rest_client_request_size_bytes_bucket", verb="POST", le="256.0") == 1
    assert value("rest_client_response_size_bytes_count", verb="GET") == 2
    assert value("rest_client_response_size_bytes_count", verb="POST") is None


def test_requests_of_several_threads_are_all_counted() -> None:
    """Also while others are counted, by the thread itself or by a scrape."""
    registry, client = scrape()
    each, labels = 20_000, {"verb": "POST", "host": "10.0.0.1:6443"}

    def send() -> None:
        for number in range(each):
            client.request_finished("POST", 201, 0.01, limited=None if number % 2 else 0.5, sent=1, received=2)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        list(registry.collect())
    for thread in threads:
        thread.join()
    code = {"code": "201", "method": "POST", "host": "10.0.0.1:6443"}
    assert registry.get_sample_value("rest_client_requests_total", code) == 4 * each
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", labels) == 4 * each
    assert registry.get_sample_value("rest_client_rate_limiter_duration_seconds_sum", labels) == each
    assert registry.get_sample_value("rest_client_request_size_bytes_sum", labels) == 4 * each
    assert registry.get_sample_value("rest_client_response_size_bytes_sum", labels) == 8 * each
