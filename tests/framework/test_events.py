"""Cluster events: which registrations cover an event."""

from __future__ import annotations

import pytest

from mooring.framework import ActionType, ClusterEvent
from mooring.framework.events import CATCH_ALL

LABEL, TAINT = ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT


@pytest.mark.parametrize(
    ("registered", "resource", "action", "expected"),
    [
        (ClusterEvent("Node", ActionType.ADD), "Node", ActionType.ADD, True),
        (ClusterEvent("Node", ActionType.ADD), "Node", ActionType.DELETE, False),
        (ClusterEvent("Node", ActionType.ADD), "Pod", ActionType.ADD, False),
        (ClusterEvent("*", ActionType.ALL), "Anything", ActionType.DELETE, True),
        (ClusterEvent("Pod", ActionType.ALL), "AssignedPod", ActionType.ADD, True),
        (ClusterEvent("Pod", ActionType.ALL), "UnschedulablePod", ActionType.ADD, True),
        (ClusterEvent("Node", LABEL | TAINT), "Node", LABEL, True),
        # An event is covered if its number is not above that of the registration and they have a bit in common.
        (ClusterEvent("Node", LABEL), "Node", LABEL | TAINT, False),
        (ClusterEvent("Node", TAINT), "Node", LABEL | TAINT, False),
        (ClusterEvent("Node", LABEL | ActionType.UPDATE_POD_LABEL), "Node", LABEL | TAINT, True),
    ],
)
def test_matches(registered: ClusterEvent, resource: str, action: ActionType, expected: bool) -> None:
    assert registered.matches(resource, action) is expected


def test_a_plugin_without_registrations_gets_all_events() -> None:
    assert all(event.actions == ActionType.ALL and event.hint is None for event in CATCH_ALL)
    assert {"Pod", "Node", "PersistentVolumeClaim"} <= {event.resource for event in CATCH_ALL}
