"""Snapshots of the cluster for clients of the what-if service, and the description of the service.

`what_if_service` imports this module with the first request, because simulations take time to import.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec

from mooring import __version__
from mooring.dashboard.what_if_service import ROOT
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.simulation.snapshot import MAX_STEPS, Answer, Snapshot, Step
from mooring.simulation.sources import InputError
from mooring.simulation.what_if_question import Question


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps that are run in order on one snapshot."""

    steps: list[Step]


class Answers(msgspec.Struct, frozen=True):
    """The answers to the steps. After an error, the steps before it stay in effect and the rest is not run."""

    answers: list[Answer]
    #: The number of open transactions.
    depth: int
    error: str = ""


class SnapshotInfo(msgspec.Struct, frozen=True):
    """A snapshot."""

    id: str
    nodes: int
    pods: int
    depth: int = 0


class KeptSnapshot:
    """A snapshot of a client, and when it was used."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.lock = threading.Lock()
        self.used = time.monotonic()


def read_batch(body: bytes) -> Batch:
    """Return the steps of a request. Raises HttpError."""
    try:
        batch = msgspec.json.decode(body, type=Batch)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HttpError(400, f"the steps are not valid: {error}") from None
    if len(batch.steps) > MAX_STEPS:
        raise HttpError(400, f"there are {len(batch.steps)} steps; at most {MAX_STEPS} are allowed")
    return batch


def answers(kept: KeptSnapshot, batch: Batch) -> Answers:
    """Run steps on a snapshot, and return the answers."""
    found: list[Answer] = []
    with kept.lock:
        for number, step in enumerate(batch.steps):
            try:
                found.append(kept.snapshot.run(step))
            except InputError as error:
                return Answers(found, kept.snapshot.depth, f"steps[{number}]: {error}")
        return Answers(found, kept.snapshot.depth)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of the service."""
    types = (Question, Batch, Answers, SnapshotInfo)
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")

    def content(name: str) -> dict[str, Any]:
        return {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{name}"} if name else {"type": "object"}}
        }

    def operation(summary: str, answer: str, body: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {
            "summary": summary,
            "responses": {"200": {"description": "The answer.", "content": content(answer)}},
        }
        return found | ({"requestBody": {"required": True, "content": content(body)}} if body else {})

    snapshot = {
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "get": operation("Describe a snapshot.", "SnapshotInfo"),
        "post": operation("Run steps on a snapshot.", "Answers", "Batch"),
        "delete": operation("Delete a snapshot.", ""),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mooring what-if", "version": __version__},
        "paths": {
            ROOT: {"post": operation("Show the effect of changes, or how many copies fit.", "", "Question")},
            f"{ROOT}/snapshots": {"post": operation("Copy the cluster into a snapshot.", "SnapshotInfo")},
            f"{ROOT}/snapshots/{{id}}": snapshot,
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }
