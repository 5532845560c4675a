"""Why, asked of a scheduler that runs: who may ask, and what `mooring explain` tells of bound and of pending pods."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, free_port
from tests.e2e.endpoints import Answer, ask, is_ready
from tests.e2e.mooring_process import MOORING, mooring_command

CERTS: Final = Path(__file__).parents[1] / "kube" / "certs"
#: Alice of the testers, as the authority says that the API server trusts, and her key.
ALICE: Final = (CERTS / "client.pem", CERTS / "client.key")
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
HEALTH: Final = ("/healthz", "/livez", "/readyz", "/readyz/ping")
#: What both schedulers serve to those who are let in.
COMMON: Final = ("/metrics", "/configz", "/metrics/resources")
OURS: Final = ("/decisions", "/decisions/default/nobody")


@pytest.fixture(scope="module")
def certified(built: None) -> Iterator[ControlPlane]:
    """A control plane whose users may have certificates."""
    yield from running(ControlPlane(apiserver_flags=[f"--client-ca-file={CERTS / 'ca.pem'}"]))


@pytest.fixture
def cluster(certified: ControlPlane) -> Iterator[Cluster]:
    cluster = Cluster(certified)
    yield cluster
    cluster.clean_up()


def start_mooring(cluster: Cluster, *flags: str, user: str = "scheduler", name: str = "mooring") -> int:
    """Start Mooring, wait until it has read the cluster, and hand back its port."""
    port = free_port()
    command = mooring_command(cluster.plane, "--leader-elect=false", *flags, user=user, port=port)
    cluster.plane.run(name, command, ready=lambda: is_ready(port))
    return port


def start_kube_scheduler(cluster: Cluster, *flags: str) -> int:
    """The same with kube-scheduler, which schedules nothing that we make here."""
    profiles = {"profiles": [{"schedulerName": "another"}]}
    process = cluster.plane.start_kube_scheduler(profiles, flags=flags)
    (port,) = (each.partition("=")[2] for each in process.command if each.startswith("--secure-port="))
    return int(port)


def allow(cluster: Cluster, kind: str, name: str, *paths: str) -> None:
    """Let a user read paths."""
    rules = [{"nonResourceURLs": list(paths), "verbs": ["get"]}]
    cluster.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": f"reads-{name}"}, "rules": rules})
    bind(cluster, f"reads-{name}", kind, name)


def bind(cluster: Cluster, role: str, kind: str, name: str) -> None:
    body = {
        "metadata": {"name": f"{name}-{role.replace(':', '-')}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}],
    }
    cluster.api.create(f"{RBAC}/clusterrolebindings", body)


# Who may ask


def test_who_is_let_in_is_whom_kube_scheduler_lets_in(cluster: Cluster) -> None:
    """By token, by certificate, or neither; the cluster knows who they are and what they may read."""
    allow(cluster, "User", "mooring", *COMMON, "/decisions", "/decisions/*")
    allow(cluster, "Group", "testers", *COMMON, "/decisions", "/decisions/*")
    theirs, ours = start_kube_scheduler(cluster), start_mooring(cluster)
    found = {path: answers(cluster, ours, path) for path in (*COMMON, *OURS, *HEALTH)}
    assert {path: found[path] for path in COMMON} == {path: answers(cluster, theirs, path) for path in COMMON}
    let_in = {"nothing": 403, "unknown token": 401, "token without rights": 403, "token": 200, "certificate": 200}
    assert found["/metrics"] == found["/configz"] == found["/decisions"] == let_in
    # Those who are let in are told that nothing is known of the pod.
    assert found["/decisions/default/nobody"] == {**let_in, "token": 404, "certificate": 404}
    # Health is for everybody, and nobody is looked up for it; kube-scheduler turns a wrong token away even here.
    everybody = dict.fromkeys(let_in, 200)
    assert [found[path] for path in HEALTH] == [everybody] * len(HEALTH)
    assert answers(cluster, theirs, "/healthz") == {**everybody, "unknown token": 401}


def answers(cluster: Cluster, port: int, path: str) -> dict[str, int]:
    """The status that each client gets."""
    users = cluster.plane.users
    clients: dict[str, dict[str, Any]] = {
        "nothing": {},
        "unknown token": {"token": "made-up"},
        "token without rights": {"token": users["nobody"].token},
        "token": {"token": users["mooring"].token},
        "certificate": {"certificate": ALICE},
    }
    return {who: ask(port, path, **how).status for who, how in clients.items()}


def test_one_who_may_not_look_up_the_authority_knows_tokens_only(cluster: Cluster) -> None:
    """The config map with the authority is not readable: Mooring says so and goes on, or ends if it is told to."""
    allow(cluster, "Group", "testers", "/metrics")
    for role in ("system:kube-scheduler", "system:volume-scheduler", "system:auth-delegator"):
        bind(cluster, role, "User", "mooring")
    port = start_mooring(cluster, user="mooring")
    assert ask(port, "/metrics", certificate=ALICE).status == 403
    assert ask(port, "/metrics", token=cluster.plane.users["admin"].token).status == 200
    # An authority that is given needs no looking up.
    told = start_mooring(cluster, f"--client-ca-file={CERTS / 'ca.pem'}", user="mooring", name="told")
    assert ask(told, "/metrics", certificate=ALICE).status == 200
    assert ask(told, "/configz", certificate=ALICE).status == 403
    log = (cluster.plane.folder / "mooring.log").read_text()
    assert "client certificates of the cluster are not accepted" in log
    strict = ("--leader-elect=false", "--authentication-tolerate-lookup-failure=false")
    process = cluster.plane.run("strict", mooring_command(cluster.plane, *strict, user="mooring"), wait=False)
    assert process.wait() == 1
    assert "give --authentication-skip-lookup" in process.tail()
    assert "Traceback" not in process.log.read_text()


# What is told


def explain(cluster: Cluster, pod: str, *arguments: str, code: int = 0) -> str:
    """Run the command as a user with the cluster's kubeconfig."""
    command = [str(MOORING), "explain", "pod", f"{cluster.namespace}/{pod}", *arguments]
    command += ["--kubeconfig", str(cluster.plane.kubeconfig())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def asking(cluster: Cluster, port: int) -> tuple[str, ...]:
    return ("--scheduler", f"https://127.0.0.1:{port}", "--token", cluster.plane.users["admin"].token)


def test_a_bound_pod(cluster: Cluster) -> None:
    for number, cpu in enumerate(("4", "8", "16")):
        cluster.add_node(f"node-{number}", cpu=cpu)
    cluster.add_node("small", cpu="1")
    cluster.add_pod("web", cpu="2")
    port = start_mooring(cluster)
    cluster.wait_bound("web")
    wait_for_state(cluster, port, "web", "bound")
    text = explain(cluster, "web", *asking(cluster, port))
    assert f"Pod {cluster.namespace}/web is on node node-2." in text
    assert "Chosen: node-2; 4 node(s) evaluated, 3 feasible." in text
    assert {"noderesourcesfit", "noderesourcesbalancedallocation"} <= set(text.lower().split())
    words = [line.lower().split() for line in text.splitlines()]
    ranks = [name for line in words for name in line if name in ("node-0", "node-1", "node-2")][-3:]
    assert ranks == ["node-2", "node-1", "node-0"]
    as_json = json.loads(explain(cluster, "web", *asking(cluster, port), "-o", "json"))
    assert yaml.safe_load(explain(cluster, "web", *asking(cluster, port), "-o", "yaml")) == as_json
    assert (as_json["state"], as_json["node"], as_json["decision"]["outcome"]) == ("bound", "node-2", "bound")
    best, *others = as_json["decision"]["candidates"]
    assert best["node"] == "node-2"
    assert [each["node"] for each in others] == ["node-1", "node-0"]
    for each in (best, *others):
        assert each["total"] == sum(each["scores"].values())
    assert best["scores"]["NodeResourcesFit"] > others[0]["scores"]["NodeResourcesFit"]

    # One who is not let in is told so, and what would be decided now.
    nobody = ("--scheduler", f"https://127.0.0.1:{port}", "--token", cluster.plane.users["nobody"].token)
    text = explain(cluster, "web", *nobody)
    assert "denied access" in text
    assert "give --token or --token-file" in text
    assert "with the pod taken off its node" in text


def wait_for_state(cluster: Cluster, port: int, pod: str, state: str) -> Any:
    """What the scheduler tells of a pod, once it is in a state."""
    path, token = f"/decisions/{cluster.namespace}/{pod}", cluster.plane.users["admin"].token

    def look() -> Any:
        answer: Answer = ask(port, path, token=token)
        return answer.json() if answer.status == 200 and answer.json()["state"] == state else None

    return cluster.api.wait_for(f"{pod} that is {state}", look)


def test_a_pending_pod(cluster: Cluster) -> None:
    """Who turned it down where, what preemption tried, and what makes it be tried again, and when."""
    cluster.add_node("node-0")
    cluster.add_node("node-1")
    cluster.add_node("kept", cpu="64", taints=[{"key": "owner", "value": "us", "effect": "NoSchedule"}])
    cluster.add_pod("big", cpu="40")
    port = start_mooring(cluster)
    message = cluster.wait_unschedulable("big")
    wait_for_state(cluster, port, "big", "pending")
    text = explain(cluster, "big", *asking(cluster, port))
    assert f"Pod {cluster.namespace}/big is pending. Attempt 1 by default-scheduler at " in text
    assert message in " ".join(text.split())
    for part in ("VERDICTS", "Insufficient cpu", "node-0, node-1", "TaintToleration", "Preemption does not help"):
        assert part in text
    assert "Retried for NodeResourcesFit on" in text
    assert "Node added" in text
    assert "Retried at the latest" in text
    found = json.loads(explain(cluster, "big", *asking(cluster, port), "-o", "json"))
    verdicts = {each["plugin"]: (each["nodes"], each["examples"]) for each in found["decision"]["verdicts"]}
    assert verdicts == {"NodeResourcesFit": (2, ["node-0", "node-1"]), "TaintToleration": (1, ["kept"])}
    assert {each["plugin"] for each in found["waiting"]["wokenBy"]} == set(verdicts)
    assert found["waiting"]["queue"] == "unschedulable"
    assert found["waiting"]["backoffEnds"] < found["waiting"]["retriedBy"]
    cluster.add_node("roomy", cpu="64")
    cluster.wait_bound("big")
    after = wait_for_state(cluster, port, "big", "bound")
    assert (after["node"], after["decision"]["attempt"]) == ("roomy", 2)


def test_preemption_is_told(cluster: Cluster) -> None:
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.add_node("only", cpu="2")
    # It takes its time to end, so that the other is seen waiting for it.
    cluster.add_pod("low", cpu="2", terminationGracePeriodSeconds=600)
    port = start_mooring(cluster)
    cluster.wait_bound("low")
    cluster.add_pod("high", cpu="2", priorityClassName="urgent")
    cluster.wait_unschedulable("high")
    cluster.api.wait_for("nomination", lambda: cluster.pod("high")["status"].get("nominatedNodeName"))
    text = explain(cluster, "high", *asking(cluster, port))
    assert "Preempting pods on only" in text
    assert f"evicting {cluster.namespace}/low" in text
    found = json.loads(explain(cluster, "high", *asking(cluster, port), "-o", "json"))
    assert found["decision"]["preemption"]["victims"] == [f"{cluster.namespace}/low"]
    assert found["waiting"]["nominatedNode"] == "only"


def test_without_a_running_scheduler_it_is_decided_again(cluster: Cluster) -> None:
    cluster.add_node("node-0")
    cluster.add_pod("fits")
    cluster.add_pod("big", cpu="40")
    nobody = ("--scheduler", f"https://127.0.0.1:{free_port()}")
    for pod, says in (("fits", "Chosen: node-0"), ("big", "Insufficient cpu")):
        text = explain(cluster, pod, *nobody)
        assert "No running Mooring answers at" in text
        assert "This is what would be decided now" in text
        assert says in text
    assert "would be decided now" in json.loads(explain(cluster, "big", *nobody, "-o", "json"))["note"]
    assert f"pod {cluster.namespace}/ghost is not there" in explain(cluster, "ghost", *nobody, code=1)
