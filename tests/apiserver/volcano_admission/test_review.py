"""The kinds with few rules, and the reviews of all kinds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.volcano import QUEUE_GATE, PodGroup, Queue
from mooring.api.volcano_jobs import JobFlow, VolcanoCronJob, VolcanoJob
from mooring.apiserver.volcano_admission.pods import ResourceGroup
from mooring.apiserver.volcano_admission.review import HOOKS, hook_name, hooks_for
from tests.apiserver.volcano_admission.reviewing import (
    OPEN,
    State,
    cron,
    defaulted,
    flow,
    group,
    hyper_node,
    pod,
    queue,
    refusal,
)
from tests.hostile import Hostile

MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}


@pytest.mark.parametrize(
    ("resource", "document", "message"),
    [
        ("podgroups", group(), ""),
        ("podgroups", group(queue=""), ""),
        ("podgroups", group(queue="q"), ""),
        ("podgroups", group(queue="none"), 'unable to find queue: queue.scheduling.volcano.sh "none" not found'),
        (
            "podgroups",
            group(queue="shut"),
            "can only submit PodGroup to queue with state `Open`, queue `shut` status is",
        ),
        ("podgroups", group(networkTopology=TIERS), "must not specify 'highestTierAllowed' and 'highestTierName'"),
        (
            "podgroups",
            group(subGroupPolicy=[{"name": "s", "networkTopology": TIERS}]),
            "in subGroupPolicy 's': must not",
        ),
        ("pods", pod(), ""),
        ("pods", pod({MIN: "1"}), ""),
        ("pods", pod({MAX: "50%"}), ""),
        ("pods", pod({MIN: "-1"}), f'invalid value <"-1"> for {MIN}, it must be a positive integer'),
        ("pods", pod({MIN: "0"}), "must be a positive integer"),
        ("pods", pod({MIN: "0%"}), "percentage which between 1% ~ 99%"),
        ("pods", pod({MAX: "100%"}), "percentage which between 1% ~ 99%"),
        ("pods", pod({MAX: "many"}), f'invalid value strconv.Atoi: parsing "many": invalid syntax for {MAX}'),
        ("pods", pod({MIN: "1", MAX: "1"}), f"not allow configure multiple annotations <[{MIN} {MAX}]> at same time"),
        ("pods", pod({MIN: "-1"}, schedulerName="default-scheduler"), ""),
        ("pods", pod({MIN: "9" * 5000}), ""),
        ("jobflows", flow(a=[], b=["a"], c=["a", "b"]), ""),
        ("jobflows", flow(), ""),
        ("jobflows", flow(a=["none"]), "jobflow Flow is not DAG: vertex is not defined: none"),
        ("jobflows", flow(a=["a"]), "jobflow Flow is not DAG"),
        ("jobflows", flow(a=["b"], b=["c"], c=["a"]), "jobflow Flow is not DAG"),
        ("cronjobs", cron(), ""),
        ("cronjobs", cron(schedule="@daily", timeZone="Europe/Berlin"), ""),
        ("cronjobs", cron(schedule=""), "schedule is required, but got empty"),
        ("cronjobs", cron(schedule="TZ=UTC * * * * *"), "schedule should not contain TZ or CRON_TZ"),
        ("cronjobs", cron(schedule="61 * * * *"), "schedule is not a valid cron expression"),
        ("cronjobs", cron(timeZone=""), "timeZone must be nil or non-empty string, got empty string"),
        ("cronjobs", cron(timeZone="../etc/passwd"), "unknown timeZone"),
        ("cronjobs", cron(timeZone="local"), "timeZone can't be Local"),
        ("cronjobs", cron(timeZone="Nowhere/City"), "invalid timeZone"),
        ("cronjobs", cron("c" * 53), "cronJob name must be no more than 52 characters"),
        ("cronjobs", cron("c_-"), 'invalid cronJob name "c_-"'),
        ("hypernodes", hyper_node({"exactMatch": {"name": "n"}}), ""),
        ("hypernodes", hyper_node({"regexMatch": {"pattern": "^n-[0-9]+$"}}), ""),
        ("hypernodes", hyper_node(), "member must have at least one member"),
        ("hypernodes", hyper_node({"regexMatch": {"pattern": "n-["}}), "member regexMatch pattern is invalid"),
    ],
)
def test_reviews(resource: str, document: dict[str, Any], message: str) -> None:
    found = refusal(resource, document)
    assert message in found if message else not found


def test_the_queue_of_a_namespace_is_the_default_of_its_pod_groups() -> None:
    state = State(queue("q"), ns={"scheduling.volcano.sh/queue-name": "theirs"})
    assert defaulted("podgroups", group(), state=state)["spec"]["queue"] == "theirs"
    assert defaulted("podgroups", group(queue="q"), state=state)["spec"]["queue"] == "q"
    assert defaulted("podgroups", group(), state=OPEN)["spec"]["queue"] == "default"


GROUPS = msgspec.convert(
    [
        {
            "resourceGroup": "management",
            "object": {"key": "namespace", "value": ["mng"]},
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "taint", "operator": "Exists"}],
            "labels": {"nodetype": "management"},
            "affinity": '{"nodeAffinity": {}}',
        },
        {
            "resourceGroup": "cpu",
            "object": {"key": "annotation", "value": ["volcano.sh/resource-group: cpu"]},
            "labels": {"nodetype": "cpu"},
        },
        {"resourceGroup": "gpu", "schedulerName": "volcano", "labels": {"nodetype": "gpu"}},
    ],
    tuple[ResourceGroup, ...],
)


def test_resource_groups_of_pods() -> None:
    given = pod(nodeSelector={"x": "y"}, tolerations=[{"key": "own"}])
    given["metadata"]["namespace"] = "mng"
    spec = defaulted("pods", given, resource_groups=GROUPS)["spec"]
    assert spec["nodeSelector"] == {"x": "y", "nodetype": "management"}
    assert spec["tolerations"] == [{"key": "own"}, {"key": "taint", "operator": "Exists"}]
    assert (spec["schedulerName"], spec["affinity"]) == ("default-scheduler", {"nodeAffinity": {}})
    given["spec"]["affinity"] = {"podAffinity": {}}
    assert defaulted("pods", given, resource_groups=GROUPS)["spec"]["affinity"] == {"podAffinity": {}}
    for name in ("cpu", "gpu"):
        spec = defaulted("pods", pod({"volcano.sh/resource-group": name}), resource_groups=GROUPS)["spec"]
        assert spec["nodeSelector"] == {"nodetype": name}
    other = pod({"volcano.sh/resource-group": "none"})
    assert defaulted("pods", other, resource_groups=GROUPS) == other


@pytest.mark.parametrize(
    ("document", "gates"),
    [
        (pod({QUEUE_GATE: "true"}), [QUEUE_GATE]),
        (pod({QUEUE_GATE: "true"}, schedulingGates=[{"name": "mine"}]), ["mine", QUEUE_GATE]),
        (pod({QUEUE_GATE: "true"}, schedulingGates=[{"name": QUEUE_GATE}]), [QUEUE_GATE]),
        (pod({QUEUE_GATE: "True"}), None),
        (pod(), None),
        (pod({QUEUE_GATE: "true"}, schedulerName="other"), None),
        (pod({QUEUE_GATE: "true"}, nodeName="node"), None),
        (pod({QUEUE_GATE: "true"}, schedulingGates=["mine"]), ["mine"]),  # the API server refuses it
        (pod({QUEUE_GATE: "true", "volcano.sh/resource-group": "gpu"}, schedulerName="other"), [QUEUE_GATE]),
    ],
)
def test_scheduling_gates_of_queues(document: dict[str, Any], gates: list[str] | None) -> None:
    found = defaulted("pods", document, adds_queue_gates=True, resource_groups=GROUPS)["spec"].get("schedulingGates")
    named = None if found is None else [each["name"] if isinstance(each, dict) else each for each in found]
    assert named == gates
    assert defaulted("pods", document) == document, "off by default"


def test_names_of_webhooks() -> None:
    names = [hook_name(each) for each in HOOKS]
    assert len(set(names)) == len(names)
    assert {"mutatejob.volcano.sh", "validatequeue.volcano.sh", "validatecronjob.volcano.sh"} < set(names)
    assert [each.path for each in hooks_for("scheduling.volcano.sh", "queues", "DELETE")] == ["/queues/validate"]
    assert hooks_for("batch", "jobs", "CREATE") == ()


KINDS: dict[str, type[KubeObject]] = {
    "jobs": VolcanoJob, "queues": Queue, "podgroups": PodGroup, "pods": Pod, "jobflows": JobFlow,
    "cronjobs": VolcanoCronJob, "hypernodes": HyperNode,
}  # fmt: skip


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), resource=st.sampled_from(sorted(KINDS)))
def test_hostile_objects_are_refused_or_accepted_without_exceptions(seed: int, resource: str) -> None:
    hostile = Hostile(seed)
    document, old = hostile.document(KINDS[resource]), hostile.document(KINDS[resource])
    if resource in {"jobs", "queues", "podgroups", "pods"}:
        defaulted(resource, document, resource_groups=GROUPS)
    refusal(resource, document)
    refusal(resource, document, old)
