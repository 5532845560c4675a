"""What users do with Python clients, as programs: `python -m tests.e2e.embedded.clients CLIENT KUBECONFIG`.

Each program prints the name of a step when it has succeeded. The programs have processes of their own, because the
clients start threads and event loops, and warn of what is not an error in tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_SECONDS = 20.0
BOATS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"oars": {"type": "integer"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod on the first node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": _pod_spec(),
    }


def _pod_spec() -> dict[str, Any]:
    return {"nodeName": "node-0", "containers": [{"name": "c", "image": "busybox"}]}


def deployment(name: str) -> dict[str, Any]:
    """A Deployment of two pods."""
    template = {"metadata": {"labels": {"app": name}}, "spec": _pod_spec()}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def until(check: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is true."""
    end = time.monotonic() + _SECONDS
    while not (found := check()):
        if time.monotonic() > end:
            raise TimeoutError("it did not happen")
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print the name of a step when it has succeeded."""
    yield
    print(name, flush=True)


def kr8s(kubeconfig: str) -> None:
    """kr8s, with its asynchronous API."""
    asyncio.run(_kr8s(kubeconfig))


async def _kr8s(kubeconfig: str) -> None:
    import kr8s
    from kr8s.asyncio.objects import Deployment, Pod, new_class

    with step("connect and discover"):
        api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
        assert (await api.version())["gitVersion"].startswith("v1.")
        assert "deployments" in {each["name"] for each in await api.api_resources()}
        assert [each.name async for each in api.get("nodes")] == ["node-0", "node-1", "node-2"]
    with step("create and wait"):
        first = await Pod(pod("kr8s", app="kr8s"), api=api)
        await first.create()
        await first.wait("condition=Ready", timeout=_SECONDS)
        assert await first.ready()
    with step("label, patch and select"):
        await first.label({"more": "yes"})
        await first.patch({"metadata": {"annotations": {"a": "b"}}})
        await first.patch([{"op": "replace", "path": "/metadata/labels/new", "value": "1"}], type="json")
        assert [each.name async for each in api.get("pods", label_selector="more=yes,new=1")] == ["kr8s"]
    with step("watch"):
        async for kind, each in api.watch("pods", field_selector="metadata.name=kr8s"):
            assert (kind, each.name) == ("ADDED", "kr8s")
            break
    with step("scale"):
        workload = await Deployment(deployment("kr8s-web"), api=api)
        await workload.create()
        await workload.wait("condition=Available", timeout=_SECONDS)
        await workload.scale(3)
        async with asyncio.timeout(_SECONDS):
            while len([each async for each in api.get("pods", label_selector="app=kr8s-web")]) != 3:
                await asyncio.sleep(0.02)
    with step("custom resources"):
        definition = await _kr8s_object(api, BOATS)
        await definition.create()
        boat_class = new_class(kind="Boat", version="example.com/v1", namespaced=True)
        boat = await boat_class({"metadata": {"name": "dinghy", "namespace": "default"}, "spec": {"oars": 2}}, api=api)
        await boat.create()
        await boat.patch({"status": {"afloat": True}}, subresource="status")
        await boat.refresh()
        assert boat.status.afloat
    with step("delete"):
        await first.delete()
        await first.wait("delete", timeout=_SECONDS)
        assert not await first.exists()


async def _kr8s_object(api: Any, document: dict[str, Any]) -> Any:
    from kr8s.asyncio.objects import object_from_spec

    return object_from_spec(document, api=api)


def lightkube(kubeconfig: str) -> None:
    """lightkube, with its synchronous client."""
    from lightkube import ApiError, Client, KubeConfig, codecs
    from lightkube.generic_resource import create_namespaced_resource
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap, Node, Pod
    from lightkube.types import PatchType

    client = Client(config=KubeConfig.from_file(kubeconfig), field_manager="lightkube", namespace="default")
    with step("list and get"):
        assert [each.metadata.name for each in client.list(Node)] == ["node-0", "node-1", "node-2"]
        assert client.get(Node, "node-0").status.allocatable["cpu"] == "32"
    with step("create and wait"):
        client.create(codecs.from_dict(pod("lightkube", app="lightkube")))
        client.wait(Pod, "lightkube", for_conditions=["Ready"])
    with step("replace with an old version"):
        data = ConfigMap(metadata=ObjectMeta(name="lightkube"), data={"a": "1"})
        first = client.create(data)
        first.data = {"a": "2"}
        client.replace(first)
        code = 0
        try:
            client.replace(first)
        except ApiError as error:
            code = error.status.code
        assert code == 409
    with step("patch"):
        client.patch(Pod, "lightkube", {"metadata": {"labels": {"new": "1"}}})
        client.patch(Pod, "lightkube", {"metadata": {"labels": {"merged": "1"}}}, patch_type=PatchType.MERGE)
        operations = [{"op": "replace", "path": "/metadata/labels/json", "value": "1"}]
        client.patch(Pod, "lightkube", operations, patch_type=PatchType.JSON)
        found = client.list(Pod, labels={"new": "1", "merged": "1", "json": "1"})
        assert [each.metadata.name for each in found] == ["lightkube"]
    with step("server-side apply"):
        applied = codecs.from_dict(deployment("lightkube-web"))
        assert client.apply(applied).metadata.name == "lightkube-web"
        until(lambda: client.get(Deployment, "lightkube-web").status.availableReplicas == 2)
    with step("scale"):
        scale = client.get(Deployment.Scale, "lightkube-web")
        scale.spec.replicas = 1
        client.replace(scale, name="lightkube-web")
        until(lambda: client.get(Deployment, "lightkube-web").status.availableReplicas == 1)
    with step("watch"):
        kind, each = next(iter(client.watch(Pod, fields={"metadata.name": "lightkube"})))
        assert (kind, each.metadata.name) == ("ADDED", "lightkube")
    with step("custom resources"):
        client.create(codecs.from_dict(BOATS))
        boat_class = create_namespaced_resource("example.com", "v1", "Boat", "boats")
        made = until(lambda: _made(client, boat_class))
        status = boat_class.Status(metadata=made.metadata, status={"afloat": True})
        client.patch(boat_class.Status, "dinghy", status, patch_type=PatchType.MERGE)
        assert client.get(boat_class, "dinghy").status == {"afloat": True}
    with step("delete"):
        client.delete(Pod, "lightkube")
        until(lambda: "lightkube" not in {each.metadata.name for each in client.list(Pod)})


def _made(client: Any, boat_class: Any) -> Any:
    from lightkube import ApiError
    from lightkube.models.meta_v1 import ObjectMeta

    try:
        return client.create(boat_class(metadata=ObjectMeta(name="dinghy"), spec={"oars": 2}))
    except ApiError as error:
        if error.status.code == 404:
            return None
        raise


_OPERATOR = textwrap.dedent(
    """
    import kopf

    @kopf.on.startup()
    def configure(settings, **_):
        settings.posting.loggers = True

    @kopf.on.create("example.com", "v1", "boats")
    def built(spec, name, namespace, patch, logger, **_):
        logger.info("launched")
        patch.status["afloat"] = True
        return {"oars": spec["oars"]}

    @kopf.on.field("example.com", "v1", "boats", field="spec.oars")
    def rowed(old, new, patch, **_):
        patch.status["rowed"] = f"{old}-{new}"

    @kopf.timer("example.com", "v1", "boats", interval=0.2)
    def tick(patch, status, **_):
        if not status.get("ticked"):
            patch.status["ticked"] = True

    @kopf.on.delete("example.com", "v1", "boats")
    def sunk(name, namespace, body, **_):
        kopf.info(body, reason="Sunk", message="it sank")

    @kopf.on.event("pods", labels={"app": "kopf"})
    def seen(event, name, memo, **_):
        print("saw", event["type"], name, flush=True)
    """
)


def kopf(kubeconfig: str) -> None:
    """kopf: an operator, and a user who writes its custom resources."""
    from kubernetes import client as official

    api = _official_client(kubeconfig)
    core, custom = official.CoreV1Api(api), official.CustomObjectsApi(api)
    official.ApiextensionsV1Api(api).create_custom_resource_definition(BOATS)
    place = {"group": "example.com", "version": "v1", "namespace": "default", "plural": "boats"}

    def status() -> dict[str, Any]:
        found = custom.get_namespaced_custom_object(**place, name="dinghy")
        return dict(found.get("status") or {})

    def events(reason: str) -> list[Any]:
        return [each for each in core.list_namespaced_event("default").items if each.reason == reason]

    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "operator.py", Path(folder) / "log"
        file.write_text(_OPERATOR)
        command = [sys.executable, "-W", "ignore", "-m", "kopf", "run", "--standalone", "-n", "default", str(file)]
        env = {**os.environ, "KUBECONFIG": kubeconfig}
        with log.open("w") as out, subprocess.Popen(command, env=env, stdout=out, stderr=out) as operator:
            try:
                body = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "dinghy"}}
                with step("creation handlers and results"):
                    custom.create_namespaced_custom_object(**place, body={**body, "spec": {"oars": 2}})
                    until(lambda: status().get("afloat") and status().get("built") == {"oars": 2})
                with step("timers"):
                    until(lambda: status().get("ticked"))
                with step("field handlers"):
                    custom.patch_namespaced_custom_object(**place, name="dinghy", body={"spec": {"oars": 4}})
                    until(lambda: status().get("rowed") == "2-4")
                with step("events of built-in resources"):
                    core.create_namespaced_pod("default", pod("kopf", app="kopf"))
                    until(lambda: "saw ADDED kopf" in log.read_text())
                with step("events that it writes"):
                    until(lambda: events("Logging"))
                with step("finalizers and deletion handlers"):
                    custom.delete_namespaced_custom_object(**place, name="dinghy")
                    until(lambda: not custom.list_namespaced_custom_object(**place)["items"])
                    until(lambda: events("Sunk"))
            except BaseException:
                print(log.read_text()[-4000:], file=sys.stderr)
                raise
            finally:
                operator.terminate()


def _official_client(kubeconfig: str) -> Any:
    from kubernetes import config

    return config.new_client_from_config(kubeconfig)


def kubernetes(kubeconfig: str) -> None:
    """The official Python client: typed, dynamic and custom objects."""
    from kubernetes import client, dynamic, utils, watch

    api = _official_client(kubeconfig)
    core, apps, batch = client.CoreV1Api(api), client.AppsV1Api(api), client.BatchV1Api(api)
    with step("version and nodes"):
        assert client.VersionApi(api).get_code().git_version.startswith("v1.")
        assert [each.metadata.name for each in core.list_node().items] == ["node-0", "node-1", "node-2"]
    with step("create and watch"):
        core.create_namespaced_pod("default", pod("official", app="official"))
        stream = watch.Watch().stream(
            core.list_namespaced_pod, "default", label_selector="app=official", timeout_seconds=int(_SECONDS)
        )
        assert any(each["object"].status.phase == "Running" for each in stream)
    with step("patches of all types"):
        core.patch_namespaced_pod("official", "default", {"metadata": {"labels": {"new": "1"}}})
        core.patch_namespaced_pod(
            "official", "default", [{"op": "replace", "path": "/metadata/labels/json", "value": "1"}]
        )
        found = core.list_namespaced_pod("default", label_selector="new=1,json=1").items
        assert [each.metadata.name for each in found] == ["official"]
    with step("lists in pages"):
        page = core.list_node(limit=2)
        rest = core.list_node(limit=2, _continue=page.metadata._continue)
        assert len(page.items) + len(rest.items) == 3
    with step("workloads and scale"):
        utils.create_from_dict(api, deployment("official-web"))
        until(lambda: apps.read_namespaced_deployment("official-web", "default").status.available_replicas == 2)
        apps.patch_namespaced_deployment_scale("official-web", "default", {"spec": {"replicas": 1}})
        until(lambda: apps.read_namespaced_deployment("official-web", "default").status.available_replicas == 1)
    with step("jobs"):
        template = {"spec": {**_pod_spec(), "restartPolicy": "Never"}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}}
        batch.create_namespaced_job("default", job)
        until(lambda: batch.read_namespaced_job_status("job", "default").status.succeeded == 1)
    with step("custom and dynamic objects"):
        client.ApiextensionsV1Api(api).create_custom_resource_definition(BOATS)
        boats = dynamic.DynamicClient(api).resources.get(api_version="example.com/v1", kind="Boat")
        made = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "dinghy"}, "spec": {"oars": 2}}
        boats.create(body=made, namespace="default")
        boats.server_side_apply(
            body={**made, "spec": {"oars": 4}},
            namespace="default",
            name="dinghy",
            field_manager="official",
            force_conflicts=True,
        )
        place = ("example.com", "v1", "default", "boats", "dinghy")
        custom = client.CustomObjectsApi(api)
        custom.patch_namespaced_custom_object_status(*place, {"status": {"afloat": True}})
        found = custom.get_namespaced_custom_object(*place)
        assert (found["spec"], found["status"]) == ({"oars": 4}, {"afloat": True})
    with step("access reviews and tokens"):
        attributes = client.V1ResourceAttributes(verb="create", resource="pods", namespace="default")
        review = client.V1SelfSubjectAccessReview(
            spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        )
        assert client.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        assert core.create_namespaced_service_account_token("default", "default", request).status.token
    with step("eviction and deletion of collections"):
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="official", namespace="default"))
        core.create_namespaced_pod_eviction("official", "default", eviction)
        until(lambda: not core.list_namespaced_pod("default", label_selector="app=official").items)
        core.delete_collection_namespaced_config_map("default", label_selector="none=such")


if __name__ == "__main__":
    {"kr8s": kr8s, "lightkube": lightkube, "kopf": kopf, "kubernetes": kubernetes}[sys.argv[1]](sys.argv[2])
