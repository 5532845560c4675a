"""The admission webhook on a real API server, with certificates that the controller creates and renews."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.controllers.admission.manifests import configurations, policies
from tests.apiserver.volcano_admission.refused_requests import ACCEPTED, DEFINITION, POLICY, REFUSED, request_of
from tests.apiserver.volcano_admission.reviewing import TEMPLATE, job, pod, queue, task
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import ApiFailure, Object, Process, free_port
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import MOORING
from tests.e2e.test_controllers import HOME, QUEUES, jobs, mooring
from tests.e2e.test_rbac import grant, rbac

NAME = "mooring-admission"
GROUP = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
SECRET = "/api/v1/namespaces/kube-system/secrets/mooring-controller-certificate"


@pytest.fixture
def webhook(cluster: Cluster) -> Iterator[tuple[Cluster, Process, int]]:
    """A cluster whose API server calls the webhook of a controller."""
    port = free_port()
    mooring(cluster, "batch", "install")
    for document, kind in zip(configurations(NAME, {"url": f"https://127.0.0.1:{port}"}), KINDS, strict=True):
        cluster.api.create(f"{GROUP}/{kind}", document)
    grant(cluster, HOME, rbac("--controller", "--admission", "-n", HOME))
    command = [str(MOORING), "controller", "--kubeconfig", str(cluster.plane.kubeconfig("robot"))]
    command += ["--enabled-admission=all"]
    command += ["--bind-address", "127.0.0.1", "--secure-port", str(port)]
    process = cluster.plane.run("admission", command, ready=lambda: is_ready(port))
    try:
        yield cluster, process, port
    finally:
        for kind in KINDS:
            cluster.api.delete(f"{GROUP}/{kind}/{NAME}")
        process.stop()
        cluster.api.delete(SECRET)
    assert "Traceback" not in process.log.read_text()


def test_rules_hold_without_a_controller(cluster: Cluster) -> None:
    """The definitions and the policies refuse what the embedded cluster refuses, and accept what it accepts."""
    api, kinds = cluster.api, ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    mooring(cluster, "batch", "install")
    assert _differences(cluster, DEFINITION) == []
    documents = policies(NAME)
    try:
        for document in documents:
            api.create(f"{GROUP}/{kinds[document['kind'].endswith('Binding')]}", document)
        create(cluster, QUEUES, queue("root"))
        create(cluster, jobs(cluster), job(name="a"))
        api.wait_for("the policies", lambda: _is_protected(cluster, "root"))
        assert _differences(cluster, POLICY) == []
        pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
        for value, message in (
            ("1", ""),
            ("50%", ""),
            ("0", "positive integer"),
            ("100%", "percentage"),
            ("x", "must be"),
        ):
            body = {"apiVersion": "v1", "kind": "Pod", **pod({"volcano.sh/jdb-min-available": value})}
            if message:
                refused(message, api.create, f"{pods}?dryRun=All", body)
            else:
                api.create(f"{pods}?dryRun=All", body)
        api.patch(f"{jobs(cluster)}/a", {"spec": {"minAvailable": 0}})
        _accept_all(cluster)
    finally:
        for document in documents:
            kind = kinds[document["kind"].endswith("Binding")]
            api.delete(f"{GROUP}/{kind}/{document['metadata']['name']}")
        api.wait_for("the policies to be gone", lambda: _is_deleted(cluster, "root"))


def _differences(cluster: Cluster, by: str) -> list[tuple[str, str]]:
    """Return the messages of requests that are not refused, or with another message, with the answer."""
    found = []
    for each in REFUSED:
        if each.by != by:
            continue
        path, body = request_of(each.resource, each.document, cluster.namespace)
        try:
            cluster.api.create(path if each.patch else f"{path}?dryRun=All", body)
            if each.patch:
                cluster.api.patch(f"{path}/{body['metadata']['name']}", each.patch)
        except ApiFailure as error:
            answer = str(error).replace("\\u003e", ">").replace("\\u003c", "<")
            if each.message not in answer:
                found.append((each.message, answer))
        else:
            found.append((each.message, "accepted"))
        if each.patch:
            cluster.api.delete(f"{path}/{body['metadata']['name']}")
    return found


def _accept_all(cluster: Cluster) -> None:
    for resource, document, patch in ACCEPTED:
        path, body = request_of(resource, document, cluster.namespace)
        cluster.api.create(path, body)
        if patch is not None:
            cluster.api.patch(f"{path}/{body['metadata']['name']}", patch)
        cluster.api.delete(f"{path}/{body['metadata']['name']}")


def create(cluster: Cluster, path: str, document: Object, *, dry_run: bool = False) -> Any:
    kind, version = (
        ("Job", "batch.volcano.sh/v1alpha1") if "/jobs" in path else ("Queue", "scheduling.volcano.sh/v1beta1")
    )
    metadata = {"name": document["metadata"]["name"]}
    body = {"apiVersion": version, "kind": kind, **document, "metadata": metadata}
    return cluster.api.create(f"{path}?dryRun=All" if dry_run else path, body)


def refused(message: str, function: Any, *arguments: Any) -> None:
    with pytest.raises(ApiFailure) as error:
        function(*arguments)
    assert message in str(error.value)


def test_admission(webhook: tuple[Cluster, Process, int]) -> None:
    cluster, process, port = webhook
    api, place = cluster.api, jobs(cluster)
    api.wait_for("the default queue", lambda: _state(cluster, "default") == "Open")
    # Defaults are written back.
    made = create(cluster, place, job({"replicas": 2, "template": TEMPLATE}, name="a"))["spec"]
    assert (made["queue"], made["schedulerName"], made["minAvailable"]) == ("default", "volcano", 2)
    assert made["tasks"][0]["name"] == "default0"
    assert create(cluster, QUEUES, queue("p", deserved={"cpu": "4"}))["spec"]["reclaimable"] is True
    create(cluster, QUEUES, queue("c", parent="p", deserved={"cpu": "3"}))
    # Creations, updates and deletions are refused.
    refused("unable to find job queue", create, cluster, place, job(queue="none"))
    refused("duplicated task name t", create, cluster, place, job(task(), task()))
    refused("greater than or equal to 0", create, cluster, place, job(minAvailable=-1))
    api.wait_for("the child in the cache", lambda: _is_refused(cluster, "p"))
    refused("sum of children's deserved", create, cluster, QUEUES, queue("d", parent="p", deserved={"cpu": "2"}))
    refused("can only submit job to leaf queue", create, cluster, place, job(queue="p"))
    refused("job updates may not change fields", api.patch, f"{place}/a", {"spec": {"queue": "c"}})
    for name in ("root", "default"):
        refused(f"`{name}` queue can not be deleted", api.request, "DELETE", f"{QUEUES}/{name}")
    api.patch(f"{place}/a", {"spec": {"minAvailable": 1}})
    _rotate(cluster, port)
    # Without the webhook, the failure policy decides.
    process.stop()
    refused("failed calling webhook", create, cluster, place, job(name="b"))
    for kind in KINDS:
        found = api.get(f"{GROUP}/{kind}/{NAME}")
        webhooks = [{**each, "failurePolicy": "Ignore"} for each in found["webhooks"]]
        api.patch(f"{GROUP}/{kind}/{NAME}", {"webhooks": webhooks})
    api.wait_for("the other failure policy", lambda: _is_accepted(cluster, job(name="b", queue="none")))


def _rotate(cluster: Cluster, port: int) -> None:
    """The certificate is renewed while requests go on, and none of them fails."""
    before = ssl.get_server_certificate(("127.0.0.1", port))
    cluster.api.patch(SECRET, {"data": {"tls.crt": base64.b64encode(b"expired").decode()}})

    def renewed() -> bool:
        create(cluster, jobs(cluster), job(name="during"), dry_run=True)
        return ssl.get_server_certificate(("127.0.0.1", port)) != before

    cluster.api.wait_for("the new certificate", renewed)
    create(cluster, jobs(cluster), job(name="after"), dry_run=True)


def _state(cluster: Cluster, name: str) -> str:
    try:
        return str(cluster.api.get(f"{QUEUES}/{name}").get("status", {}).get("state", ""))
    except ApiFailure:
        return ""


def _is_refused(cluster: Cluster, name: str) -> bool:
    try:
        cluster.api.request("DELETE", f"{QUEUES}/{name}?dryRun=All")
    except ApiFailure as error:
        return "child queues" in str(error)
    return False


def _is_protected(cluster: Cluster, name: str) -> bool:
    try:
        cluster.api.request("DELETE", f"{QUEUES}/{name}?dryRun=All")
    except ApiFailure as error:
        return f"`{name}` queue can not be deleted" in str(error)
    return False


def _is_deleted(cluster: Cluster, name: str) -> bool:
    try:
        cluster.api.delete(f"{QUEUES}/{name}")
    except ApiFailure:
        return False
    return True


def _is_accepted(cluster: Cluster, document: Object) -> bool:
    try:
        create(cluster, jobs(cluster), document)
    except ApiFailure:
        return False
    return True
