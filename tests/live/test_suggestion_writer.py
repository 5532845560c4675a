"""Suggestions and decisions as events and annotations of pods, on an embedded cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from mooring.config import default_config
from mooring.kube import load_access
from mooring.live.scheduler import LiveScheduler
from mooring.live.suggestion_writer import ANNOTATION, EVENT, SIMULATOR, SUGGESTIONS
from mooring.scheduler.simulator_annotations import HISTORY, SELECTED
from tests.live.embedded import Embedded
from tests.live.test_explanations import add_pod
from tests.waiting import until

_SIMULATOR = "kube-scheduler-simulator.sigs.k8s.io"


def read(embedded: Embedded, name: str) -> dict[str, Any]:
    found = embedded.cluster.store.get("pods", "default", name)
    assert found is not None
    return found.document


@pytest.mark.parametrize("kinds", [(EVENT, ANNOTATION, SIMULATOR), ()], ids=["on", "off"])
async def test_suggestions_are_written_only_if_they_are_asked_for(embedded: Embedded, kinds: tuple[str, ...]) -> None:
    config = default_config()
    election = msgspec.structs.replace(config.leader_election, leader_elect=False)
    config = msgspec.structs.replace(config, leader_election=election)
    access = load_access(kubeconfig=embedded.kubeconfig)
    scheduler = LiveScheduler(config, access, whole_process=False, suggestions=kinds)
    running = asyncio.create_task(scheduler.run())
    try:
        await scheduler.ready.wait()
        add_pod(embedded, "fits", "100m")
        add_pod(embedded, "huge", "5000")

        def annotations(name: str) -> dict[str, str]:
            found: dict[str, str] = read(embedded, name)["metadata"].get("annotations", {})
            return found

        await until(lambda: read(embedded, "fits")["spec"].get("nodeName"))
        await until(lambda: read(embedded, "huge").get("status", {}).get("conditions"))
        if not kinds:
            assert scheduler.suggestions is None
            assert not annotations("fits")
            assert not annotations("huge")
            return
        await until(lambda: annotations("huge").get(SUGGESTIONS) and annotations("fits").get(SELECTED))
        assert "Reduce the request for cpu from 5k to " in await embedded.event("Suggestion")
        assert "Reduce the request for cpu from 5k to " in annotations("huge")[SUGGESTIONS]
        fits = annotations("fits")
        node = read(embedded, "fits")["spec"]["nodeName"]
        assert fits[SELECTED] == node
        assert msgspec.json.decode(fits[f"{_SIMULATOR}/filter-result"])[node]["NodeResourcesFit"] == "passed"
        raw = msgspec.json.decode(fits[f"{_SIMULATOR}/score-result"])[node]
        final = msgspec.json.decode(fits[f"{_SIMULATOR}/finalscore-result"])[node]
        assert raw.keys() == final.keys()
        assert int(final["NodeResourcesFit"]) >= 0
        assert len(msgspec.json.decode(fits[HISTORY])) == 1
        rejected = msgspec.json.decode(annotations("huge")[f"{_SIMULATOR}/filter-result"])
        assert {each["NodeResourcesFit"] for each in rejected.values()} == {"Insufficient cpu"}
        assert annotations("huge")[SELECTED] == ""
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
