"""Failures of an API server are logged once for each cause."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api import Node, Pod
from mooring.api.core import Namespace, Service
from mooring.kube import Access, Client, ElectionSettings, ElectionThread, Reflector
from mooring.kube.client_errors import (
    ConnectionFailed,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
)
from mooring.kube.failure_log import FailureLog
from tests.log_capture import capture_logs

ACCESS = Access(server="https://api:6443", origin="my.kubeconfig")
UNREACHABLE = ConnectionFailed("https://api:6443 cannot be reached: refused")


def shown(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["log_level"] != "debug"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UNREACHABLE, "The API server cannot be reached; retrying"),
        (OutcomeUnknown("closed"), "Requests to the API server fail; retrying"),
        (Unauthorized(401, "Unauthorized", "no"), "The API server does not accept the credentials; retrying"),
    ],
)
def test_a_failure_of_the_server_is_one_line_for_all_kinds(error: KubeError, text: str) -> None:
    now = 0.0
    failures = FailureLog(ACCESS, clock=lambda: now)
    with capture_logs() as lines:
        for attempt in range(20):
            now = float(attempt)
            for kind in ("nodes", "pods", "leases"):
                failures.failed(kind, error)
    (line,) = shown(lines)
    assert line == {
        "event": text,
        "log_level": "warning",
        "server": ACCESS.server,
        "error": str(error),
        "found": "my.kubeconfig",
    }
    with capture_logs() as lines:
        now = 61.0
        failures.failed("nodes", error)  # a reminder
        failures.failed("pods", error)
        for kind in ("nodes", "pods", "leases"):
            failures.succeeded(kind)
        failures.failed("pods", error)  # another outage
    assert [line["event"] for line in shown(lines)] == [text, "The API server answers again", text]


def test_a_failure_of_one_kind_is_logged_once_per_message() -> None:
    failures = FailureLog(ACCESS)
    with capture_logs() as lines:
        for text in ("no such kind", "no such kind", "gone"):
            failures.failed("widgets", NotFound(404, "NotFound", text))
        failures.failed("pods", Gone(410, "Expired", "too old"))  # normal
    assert [line["error"] for line in shown(lines)] == ["no such kind (404 NotFound)", "gone (404 NotFound)"]


async def test_missing_permissions_are_one_line_with_all_kinds_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.failure_log._COLLECT_SECONDS", 0.01)
    failures = FailureLog(ACCESS)
    failures.rbac_command = "mooring rbac --controller"
    error = Forbidden(403, "Forbidden", "no")
    with capture_logs() as lines:
        for _ in range(2):
            for kind in ("pods", "nodes"):
                failures.failed(kind, error)
            await asyncio.sleep(0.05)
        failures.failed("leases", error)
        await asyncio.sleep(0.05)
    first, second = shown(lines)
    assert "`mooring rbac --controller` prints the roles that grant them" in first["event"]
    assert (first["kinds"], second["kinds"]) == ("nodes, pods", "leases")


async def test_reflectors_and_the_election_report_an_unreachable_server_once() -> None:
    access = Access(server="https://127.0.0.1:1", origin="test")
    settings = ElectionSettings(identity="me", name="lease", namespace="default")
    with capture_logs() as lines:
        async with Client(access) as client:
            reflectors = [Reflector(client, kind, lambda _: None) for kind in (Node, Pod, Service, Namespace)]
            election = ElectionThread(
                access, settings, on_started=lambda: None, on_lost=lambda: None, failures=client.failures
            )
            election.start()
            tasks = [asyncio.create_task(each.run()) for each in reflectors]
            while not all(each.last_error for each in reflectors):
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(election.stop)
    (line,) = [line for line in lines if line["log_level"] == "warning"]
    assert line["event"] == "The API server cannot be reached; retrying"
    assert "https://127.0.0.1:1 cannot be reached" in line["error"]
