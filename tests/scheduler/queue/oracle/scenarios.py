"""Random scenarios for the scheduling queue: operations that kube-scheduler's queue and ours both carry out.

``python -m tests.scheduler.queue.oracle.scenarios SEED COUNT`` prints them, one JSON object a line.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from typing import Any

from mooring.framework.events import ActionType as A

PROFILES = ("default-scheduler", "other")
FILTERS = ("Fit", "Ports", "Spread", "Mute")  # Mute registers for nothing.
GATES = ("Gate", "Wait")
NAMES = tuple(f"p{number}" for number in range(7))
#: What may happen to which kind of object.
EVENTS: dict[str, tuple[A, ...]] = {
    "Node": (A.ADD, A.DELETE, A.UPDATE_NODE_LABEL, A.UPDATE_NODE_TAINT, A.UPDATE_NODE_ALLOCATABLE),
    "AssignedPod": (A.ADD, A.DELETE, A.UPDATE, A.UPDATE_POD_LABEL, A.UPDATE_POD_SCALE_DOWN),
    "UnschedulablePod": (A.ADD, A.DELETE),
    "PersistentVolumeClaim": (A.ADD, A.UPDATE, A.DELETE),
    "StorageClass": (A.ADD, A.UPDATE),
}
REGISTRATIONS = (
    ("Node", A.ADD | A.UPDATE_NODE_TAINT),
    ("Node", A.ADD | A.UPDATE),
    ("Node", A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT),
    ("Node", A.ALL),
    ("Pod", A.DELETE),
    ("Pod", A.UPDATE_POD_LABEL),
    ("Pod", A.UPDATE_POD_SCALE_DOWN | A.UPDATE_POD_TOLERATION),
    ("Pod", A.UPDATE),
    ("Pod", A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
    ("Pod", A.ALL),
    ("PersistentVolumeClaim", A.ADD | A.UPDATE),
    ("StorageClass", A.ADD),
    ("*", A.ADD),
    ("*", A.ALL),
)
#: Seconds between operations; never none, since pods of one moment have no order upstream.
TEMPI = (
    (0.125, 0.25),
    (0.125, 0.25, 0.5, 0.875, 1.0),
    (0.125, 0.25, 0.5, 0.875, 1.0, 1.5, 3.0, 11.0, 31.0, 100.0, 301.0),
)
WEIGHTS = {
    "add": 12,
    "update": 14,
    "delete": 4,
    "pop": 22,
    "done": 3,
    "fail": 24,
    "activate": 5,
    "event": 22,
    "tick": 12,
    "gates": 7,
}


class ScenarioMaker:
    """Makes one scenario out of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.pods: dict[str, dict[str, Any]] = {}
        self.versions = 0
        #: How many pods have had a name.
        self.bearers: Counter[str] = Counter()
        self.pop_from_backoff = self.random.random() < 0.85

    def make(self) -> dict[str, Any]:
        """The scenario."""
        rng = self.random
        initial = rng.choice((1.0, 1.0, 1.0, 2.0, 0.5, 0.0))
        start = float(rng.randrange(1_000, 100_000))
        tempo = rng.choice(TEMPI)
        weights = {**WEIGHTS, "event": rng.choice((20, 50)), "update": rng.choice((10, 30))}
        at, ops = start, []
        for _ in range(rng.randrange(20, 90)):
            at += rng.choice(tempo)
            kind = rng.choices(list(weights), list(weights.values()))[0]
            ops.append({"op": kind, "at": at, **getattr(self, kind)()})
        return {
            "id": f"seed-{self.seed}",
            "initial": initial,
            "max": rng.choice((10.0, 10.0, 10.0, 0.0, 5.0)) if initial else 0.0,
            "maxUnschedulable": rng.choice((300.0, 300.0, 60.0)),
            "popFromBackoff": self.pop_from_backoff,
            "start": start,
            "gates": {profile: list(GATES) for profile in PROFILES},
            "hints": {profile: self.registrations() for profile in PROFILES},
            "ops": ops,
        }

    def registrations(self) -> dict[str, list[dict[str, Any]]]:
        rng = self.random
        found = {}
        for plugin in (*FILTERS, *GATES):
            chosen = [] if plugin == "Mute" else rng.sample(REGISTRATIONS, rng.randrange(1, 5))
            found[plugin] = [
                {"resource": resource, "actions": int(actions), "hint": rng.choice(("", "", "always"))}
                for resource, actions in chosen
            ]
        return found

    def some(self, names: tuple[str, ...], most: int = 2) -> list[str]:
        return self.random.sample(names, self.random.randrange(0, min(most, len(names)) + 1))

    def hints(self) -> dict[str, str]:
        """For each plugin, the pods that its hint answers Queue for; ``!`` makes it fail."""
        rng = self.random
        found = {}
        for plugin in self.some((*FILTERS, *GATES), 4):
            found[plugin] = "!" if rng.random() < 0.05 else " ".join(self.some(NAMES, 5))
        return found

    def pod(self, name: str) -> dict[str, Any]:
        rng = self.random
        self.versions += 1
        self.bearers[name] += 1
        return {
            "name": name,
            "uid": f"{name}-{self.versions}",
            "profile": rng.choice(PROFILES),
            "priority": rng.choice((0, 0, 5, 10)),
            "labels": {},
            "hints": self.hints(),
            "gates": rng.choice((0, 0, 0, 2)),
            "tolerations": 0,
            "cpu": rng.choice(("", "1", "2")),
        }

    def add(self) -> dict[str, Any]:
        free = [name for name in NAMES if name not in self.pods]
        name = self.random.choice(free if free and self.random.random() < 0.8 else NAMES)
        if name not in self.pods or self.random.random() < 0.7:
            self.pods[name] = self.pod(name)  # A namesake, if there was one: the old one was not seen to go.
        return {"pod": self.pods[name]}

    def update(self) -> dict[str, Any]:
        rng = self.random
        if not self.pods:
            return self.update_of(self.pod(NAMES[0]), {})
        old = self.pods[rng.choice(list(self.pods))]
        changes: dict[str, Any] = {
            "labels": {"version": str(len(old["labels"]) + rng.randrange(100))},
            "tolerations": old["tolerations"] + 1,
            "gates": 0,
            "cpu": rng.choice(("", "1", "2")),
        }
        # Without popping from back-off, upstream can lose count of a pod that several changes wake at once.
        chosen = rng.sample(list(changes), rng.randrange(0, 4 if self.pop_from_backoff else 2))
        return self.update_of(old, {name: changes[name] for name in chosen})

    def update_of(self, old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        new = {**old, "hints": self.hints(), **changes}
        self.pods[new["name"]] = new
        return {"old": old, "pod": new}

    def delete(self) -> dict[str, Any]:
        if not self.pods:
            return {"pod": self.pod(NAMES[0])}
        return {"pod": self.pods.pop(self.random.choice(list(self.pods)))}

    def pop(self) -> dict[str, Any]:
        return {}

    def tick(self) -> dict[str, Any]:
        return {}

    def done(self) -> dict[str, Any]:
        return {"nth": self.random.randrange(8), "forget": self.random.random() < 0.5}

    def fail(self) -> dict[str, Any]:
        broken = self.random.random() < 0.25
        plugins, pending = ([], []) if broken else (self.some(FILTERS), self.some((*FILTERS, *GATES), 1))
        return {"nth": self.random.randrange(8), "plugins": plugins, "pending": pending}

    def activate(self) -> dict[str, Any]:
        # Upstream is given pods, we are given names: leave out names that could mean a pod that was replaced.
        names = tuple(name for name in self.pods if self.bearers[name] == 1)
        return {"keys": [f"{name}@{self.pods[name]['uid']}" for name in self.some(names)]}

    def some_object(self, resource: str) -> dict[str, Any]:
        if "Pod" in resource:
            return {"kind": "Pod", "pod": {**self.pod("elsewhere"), "nodeName": "n"}}
        return {"kind": resource, "name": "x", "hints": self.hints()}

    def event(self) -> dict[str, Any]:
        rng = self.random
        resource = rng.choice(list(EVENTS))
        action = rng.choice(EVENTS[resource])
        return {
            "resource": resource,
            "action": int(action),
            "oldObj": None if action == A.ADD else self.some_object(resource),
            "newObj": None if action == A.DELETE else self.some_object(resource),
            "maxPrio": rng.choice((None, None, None, None, 0, 5)),
        }

    def gates(self) -> dict[str, Any]:
        return {"key": self.random.choice(NAMES), "gated": self.some(GATES)}


def main() -> None:
    """Print scenarios."""
    seed, count = map(int, sys.argv[1:3])
    for number in range(count):
        print(json.dumps(ScenarioMaker(seed + number).make(), separators=(",", ":")))


if __name__ == "__main__":
    main()
