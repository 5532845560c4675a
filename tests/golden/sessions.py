"""Golden sessions: the cases with Volcano's answers, and how Mooring's answer compares."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from tests.golden.decisions import Case, Lines, by_theme

#: The sets of sessions, and where each comes from: see their READMEs.
SETS = (
    "volcano-1.15",
    "volcano-1.15-topology",
    "volcano-1.15-devices",
    "volcano-1.15-npu",
    "volcano-1.15-numa",
    "volcano-1.15-mindcluster",
    "volcano-1.15-rescheduling",
    "volcano-1.15-mixed",
)
#: Where any node will do: Volcano drew lots.
ANY = "*"


@functools.cache
def themes() -> dict[str, list[Lines]]:
    """The cases of each theme, with their answers."""
    found: dict[str, list[Lines]] = {}
    for data in SETS:
        for theme, pair in by_theme(data):
            found.setdefault(theme, []).append(pair)
    return found


def compare(expected: Case, answer: Case) -> list[str]:
    """What differs; nothing if the session decided the same. What Volcano's answer leaves out, varied there."""
    return list(_differences(expected, answer))


def _differences(expected: Case, answer: Case) -> Iterator[str]:
    for key in ("bound", "pipelined"):
        if key in expected:
            yield from _places(key, expected[key], answer[key])
    if "evicted" in expected and expected["evicted"] != answer["evicted"]:
        yield f"evicted: {answer['evicted']}, Volcano says {expected['evicted']}"
    for key in ("pods", "queues"):
        if key in expected:
            yield from _entries(key, expected[key], answer[key])
    if "numa" in expected:
        free = answer.get("numa", {})
        yield from _entries("numa", expected["numa"], {name: free.get(name) for name in expected["numa"]})
    if "podGroups" in expected:
        shown = {
            uid: _without_varying(expected["podGroups"].get(uid), group) for uid, group in answer["podGroups"].items()
        }
        yield from _entries("podGroups", expected["podGroups"], shown)
    if "annotations" in expected:
        added = {
            name: {key: value for key, value in given.items() if not key.endswith("-time")}
            for name, given in answer.get("annotations", {}).items()
        }
        yield from _entries("annotations", expected["annotations"], added)
    if "locks" in expected and expected["locks"] != answer.get("locks", []):
        yield f"locks: {answer.get('locks', [])}, Volcano says {expected['locks']}"
    if "next" in expected:
        yield from (f"next: {each}" for each in _differences(expected["next"], answer["next"]))


def _places(key: str, expected: dict[str, str], answer: dict[str, str]) -> Iterator[str]:
    for name in sorted(expected.keys() | answer.keys()):
        wanted, found = expected.get(name), answer.get(name)
        if wanted != found and not (wanted == ANY and found is not None):
            yield f"{key}.{name}: {found}, Volcano says {wanted}"


def _entries(key: str, expected: dict[str, Any], answer: dict[str, Any]) -> Iterator[str]:
    for name in sorted(expected.keys() | answer.keys()):
        if expected.get(name) != answer.get(name):
            yield f"{key}.{name}: {answer.get(name)}, Volcano says {expected.get(name)}"


def _without_varying(expected: Case | None, group: Case) -> Case:
    """A group without the messages that Volcano's answer leaves out."""
    wanted = (expected or {}).get("conditions", [])
    conditions = [
        {key: value for key, value in each.items() if key != "message" or place >= len(wanted) or key in wanted[place]}
        for place, each in enumerate(group.get("conditions", []))
    ]
    return {**group, "conditions": conditions} if conditions else group
