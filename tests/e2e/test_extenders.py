"""Extenders on a real API server: kube-scheduler and Mooring, one after the other, with the same extenders.

Each case is an extender that manages a resource of its own, and a pod that asks for it. What the extenders were asked,
where the pods went, and what the conditions of the others say has to be the same.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object
from tests.e2e.mooring_process import mooring_command
from tests.extenders import ExtenderProcess, extender

CERTS = Path(__file__).parents[1] / "kube" / "certs"
NAMES_ONLY = {"nodeCacheCapable": True}
EVERY = [f"node-{number}" for number in range(4)]
#: name -> (extender, rules for its verbs, what the pod has besides).
CASES: dict[str, tuple[Object, Object, Object]] = {
    "names": (
        {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100, **NAMES_ONLY},
        {"filter": {"reject": {"node-0": "no"}}, "prioritize": {"scores": {"node-0": 10, "node-2": 9}}},
        {},
    ),
    "objects": (
        {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100},
        {"filter": {"reject": {"node-0": "no"}}, "prioritize": {"scores": {"node-0": 10, "node-3": 9}}},
        {},
    ),
    "refused": (
        {"filterVerb": "filter", **NAMES_ONLY},
        {
            "filter": {
                "reject": {"node-0": "node(s) had no licence", "ghost": "node(s) did not exist"},
                "unresolvable": {"node-1": "node(s) were cursed", "node-2": "node(s) were cursed"},
                "drop": ["node-3", "spare-0", "spare-1"],
            }
        },
        {},
    ),
    "partly": ({"filterVerb": "filter"}, {"filter": {"drop": EVERY}}, {"nodeSelector": {"group": "none"}}),
    "code": ({"filterVerb": "filter"}, {"filter": {"status": 500}}, {}),
    "says-so": ({"filterVerb": "filter"}, {"filter": {"error": "the extender is out of order"}}, {}),
    "html": ({"filterVerb": "filter"}, {"filter": {"text": "<html>no</html>"}}, {}),
    "empty": ({"filterVerb": "filter"}, {"filter": {"text": ""}}, {}),
    "half": ({"filterVerb": "filter"}, {"filter": {"text": '{"NodeNames": ["a"'}}, {}),
    "words": ({"filterVerb": "filter"}, {"filter": {"text": "nope"}}, {}),
    "array": ({"filterVerb": "filter"}, {"filter": {"text": "[]"}}, {}),
    "number": ({"filterVerb": "filter"}, {"filter": {"text": '{"NodeNames": 7}'}}, {}),
    "inside": ({"filterVerb": "filter"}, {"filter": {"text": '{"FailedNodes": {"a": ["b"]}}'}}, {}),
    "invented": ({"filterVerb": "filter", **NAMES_ONLY}, {"filter": {"add": ["nowhere"]}}, {}),
    "slow": ({"filterVerb": "filter", "httpTimeout": "400ms"}, {"filter": {"delay": 1.2}}, {}),
    "cut": ({"filterVerb": "filter"}, {"filter": {"cut": True}}, {}),
    "refusing": ({"filterVerb": "filter"}, {}, {}),
    "untrusted": ({"filterVerb": "filter"}, {}, {}),
    "trusted": (
        {"filterVerb": "filter", "enableHTTPS": True, **NAMES_ONLY},
        {"filter": {"drop": [*EVERY[1:], "spare-0", "spare-1"]}},
        {},
    ),
    "ignored": (
        {"filterVerb": "filter", "ignorable": True, **NAMES_ONLY},
        {"filter": {"status": 500}},
        {"nodeSelector": {"kubernetes.io/hostname": "node-1"}},
    ),
    "no-scores": (
        {"prioritizeVerb": "prioritize", "weight": 1, **NAMES_ONLY},
        {"prioritize": {"status": 500}},
        {"nodeSelector": {"group": "spare"}},
    ),
    "binding": (
        {"bindVerb": "bind", **NAMES_ONLY},
        {},
        {"nodeSelector": {"kubernetes.io/hostname": "node-2"}},
    ),
}
MESSAGES = {
    "code": "failed filter with extender at URL {url}/code/filter, code 500",
    "says-so": "the extender is out of order",
    "slow": 'Post "{url}/slow/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    "html": "invalid character '<' looking for beginning of value",
}
Start = Callable[[Cluster, Object], None]


def resource(name: str) -> str:
    return f"example.com/{name}"


def configuration(url: str, secure_url: str, names: list[str]) -> Object:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    special = {"refusing": nobody, "untrusted": f"{secure_url}/untrusted", "trusted": f"{secure_url}/trusted"}
    extenders = [
        {
            "urlPrefix": special.get(name, f"{url}/{name}"),
            "managedResources": [{"name": resource(name), "ignoredByScheduler": True}],
            "httpTimeout": "10s",
            **CASES[name][0],
        }
        for name in names
    ]
    return {"leaderElection": {"leaderElect": False}, "extenders": extenders}


def run_mooring(cluster: Cluster, config: Object) -> None:
    file = cluster.plane.scheduler_config(config, name="mooring-extenders")
    cluster.plane.run("mooring", mooring_command(cluster.plane, "--config", str(file)), wait=False)


def run_kube_scheduler(cluster: Cluster, config: Object) -> None:
    cluster.plane.start_kube_scheduler(config, name="kube-scheduler-extenders")


def outcome(pod: Object) -> tuple[str, str, str] | None:
    """The pod's node, or reason and message of its condition; None while there is neither."""
    if node := pod["spec"].get("nodeName"):
        return node, "", ""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return "", condition["reason"], condition["message"]
    return None


def shown(body: Object) -> Object:
    """A request without what differs from run to run; the order of nodes has no meaning."""
    body = dict(body)
    if "Pod" in body:
        body["Pod"] = stripped(body["Pod"])
    if body.get("NodeNames") is not None:
        body["NodeNames"] = sorted(body["NodeNames"])
    if body.get("Nodes") is not None:
        items = sorted(body["Nodes"]["items"], key=lambda node: node["metadata"]["name"])
        body["Nodes"] = {**body["Nodes"], "items": items}
    if "PodUID" in body:
        assert body.pop("PodUID")
    for key in ("NodeNameToVictims", "NodeNameToMetaVictims"):
        if body.get(key) is not None:
            body[key] = {
                node: {**victims, "Pods": [stripped(pod) if "metadata" in pod else set(pod) for pod in victims["Pods"]]}
                for node, victims in body[key].items()
            }
    return body


def stripped(pod: Object) -> Object:
    metadata = {
        key: value
        for key, value in pod["metadata"].items()
        if key not in ("uid", "resourceVersion", "creationTimestamp")
    }
    assert "managedFields" not in metadata
    # Its condition has a time, and may or may not be known yet when the pod is tried.
    status = {key: value for key, value in pod["status"].items() if key != "conditions"}
    return {**pod, "metadata": metadata, "status": status}


def first_requests(*processes: ExtenderProcess) -> dict[str, Object]:
    """What each verb of each extender was asked first; failures are tried again."""
    found: dict[str, Object] = {}
    for process in processes:
        for request in process.requests():
            found.setdefault(request["path"], {"type": request["type"], **shown(request["body"])})
    return found


def add_nodes(cluster: Cluster) -> None:
    for name in EVERY:
        cluster.add_node(name, labels={"group": "main"})
    for number in range(2):
        cluster.add_node(f"spare-{number}", labels={"group": "spare"})


def rules_of(cluster: Cluster, names: list[str]) -> Object:
    rules = {f"{name}/{verb}": rule for name in names for verb, rule in CASES[name][1].items()}
    rules["bind"] = {"server": cluster.plane.server, "token": cluster.plane.users["admin"].token}
    return rules


@pytest.fixture
def processes(cluster: Cluster, tmp_path: Path) -> Any:
    rules = rules_of(cluster, list(CASES))
    keys = {"cert": str(CERTS / "server.pem"), "key": str(CERTS / "server.key")}
    with extender(tmp_path / "plain", rules) as plain, extender(tmp_path / "secure", rules, **keys) as secure:
        yield plain, secure


def test_both_schedulers_do_the_same(cluster: Cluster, processes: tuple[ExtenderProcess, ExtenderProcess]) -> None:
    plain, secure = processes
    add_nodes(cluster)
    config = configuration(plain.url, secure.url, list(CASES))
    theirs = play(cluster, run_kube_scheduler, config, processes)
    ours = play(cluster, run_mooring, config, processes)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    outcomes = theirs[0]
    assert [outcomes[name][0] for name in ("names", "objects", "trusted", "ignored", "binding")] == [
        *("node-2", "node-3", "node-0", "node-1", "node-2")
    ]
    for name, message in MESSAGES.items():
        assert outcomes[name][1:] == ("SchedulerError", message.format(url=plain.url))
    silent = {"partly", "refusing", "untrusted"}  # nothing was left to ask about, or nobody could be asked
    assert {path.split("/")[2] for path in theirs[1]} == set(CASES) - silent


def play(
    cluster: Cluster, start: Start, config: Object, processes: tuple[ExtenderProcess, ...]
) -> tuple[dict[str, tuple[str, str, str]], dict[str, Object]]:
    """What became of the pod of each case, and what extenders were asked."""
    for process in processes:
        process.forget()
    start(cluster, config)
    for name, (_, _, more) in CASES.items():
        amounts = {"cpu": "100m", "memory": "100Mi", resource(name): "1"}
        container = {"name": "main", "image": "example/app:1", "resources": {"requests": amounts, "limits": amounts}}
        cluster.add_pod(name, **{"containers": [container], **more})

    def look() -> dict[str, tuple[str, str, str]] | None:
        found = {pod["metadata"]["name"]: outcome(pod) for pod in cluster.pods()}
        known = {name: each for name, each in found.items() if each is not None}
        return known if len(known) == len(CASES) else None

    outcomes = cluster.api.wait_for("outcome of every case", look, 90)
    asked = first_requests(*processes)
    stop_scheduler(cluster)
    for name in CASES:
        cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{name}")
    # The spare nodes are equally good for the pod that got no scores from its extender.
    outcomes["no-scores"] = (outcomes["no-scores"][0].rpartition("-")[0], *outcomes["no-scores"][1:])
    return outcomes, asked


def stop_scheduler(cluster: Cluster) -> None:
    process = cluster.plane.processes.pop()
    process.stop()


@pytest.mark.parametrize("names_only", [True, False])
def test_preemption_asks_extenders(cluster: Cluster, tmp_path: Path, names_only: bool) -> None:
    """The extender lets only one of three nodes be emptied, and not the one that would have been chosen."""
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    with extender(tmp_path, {"preempt": {"nodes": ["node-1"]}}) as process:
        config = {
            "leaderElection": {"leaderElect": False},
            "extenders": [{"urlPrefix": process.url, "preemptVerb": "preempt", "nodeCacheCapable": names_only}],
        }
        for number in range(3):
            cluster.add_node(f"node-{number}", cpu="2")
        found = []
        for start in (run_kube_scheduler, run_mooring):
            process.forget()
            for number in range(3):
                cluster.add_pod(f"low-{number}", cpu=f"{1500 + 100 * number}m", nodeName=f"node-{number}")
            start(cluster, config)
            cluster.add_pod("high", cpu="2", priorityClassName="urgent")
            cluster.wait_bound("high")
            (request,) = process.requests()
            found.append((cluster.placements(), shown(request["body"])))
            stop_scheduler(cluster)
            for pod in cluster.pods():
                cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{pod['metadata']['name']}")
    cluster.api.delete("/apis/scheduling.k8s.io/v1/priorityclasses/urgent")
    theirs, ours = found
    assert ours == theirs
    assert ours[0] == {"high": "node-1", "low-0": "node-0", "low-2": "node-2"}
