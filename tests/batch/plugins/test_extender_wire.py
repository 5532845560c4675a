"""The JSON form of objects for extenders."""

from __future__ import annotations

import json

import msgspec
import pytest

from mooring.batch.plugins.extender_wire import job_json, node_json, queue_json, resource_json, task_json
from mooring.batch.resource import Resource
from tests.batch.cases import conf, gang, jobs_of, node, running, session_of, tasks_of


def test_resources() -> None:
    found = resource_json(Resource(1500, 2048, {"pods": 1}))
    assert found == {"MilliCPU": 1500, "Memory": 2048, "ScalarResources": {"pods": 1}, "MaxTaskNum": 0}


@pytest.mark.parametrize(("status", "bit"), [("Pending", 1), ("Allocated", 2), ("Running", 32), ("Unknown", 512)])
def test_a_status_is_a_bit(status: str, bit: int) -> None:
    session = session_of(conf(("gang",)), node("a"), gang("g", 1))
    task = tasks_of(session)["g-task-0"]
    task.status = status  # type: ignore[assignment]
    assert task_json(task)["Status"] == bit


def test_objects_are_json_with_volcano_s_names() -> None:
    session = session_of(conf(("gang",)), node("a", "4"), running("g", ["a"]))
    task, job = tasks_of(session)["g-task-0"], jobs_of(session)["g"]
    own = json.loads(msgspec.json.encode(task_json(task)))
    assert (own["Job"], own["NodeName"], own["Resreq"]["MilliCPU"]) == ("default/g", "a", 1000)
    whole = json.loads(msgspec.json.encode(job_json(job)))
    assert (whole["UID"], whole["MinAvailable"], list(whole["Tasks"])) == ("default/g", 1, [task.uid])
    assert whole["PodGroup"]["spec"]["minMember"] == 1
    place = json.loads(msgspec.json.encode(node_json(session.nodes["a"])))
    assert (place["Name"], place["Idle"]["MilliCPU"], place["Used"]["MilliCPU"]) == ("a", 3000, 1000)
    queue = json.loads(msgspec.json.encode(queue_json(session.queues["default"])))
    assert (queue["UID"], queue["Weight"]) == ("default", 1)
