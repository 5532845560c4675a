"""The webhook on the controller's port, on an embedded cluster."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from mooring.apiserver.volcano_admission.review import HOOKS
from mooring.cluster.patching.json_patch import json_patch
from mooring.controllers.admission.webhook import patch_between
from mooring.controllers.admission.webhook_certificates import CertificateSettings
from mooring.controllers.manager import ControllerManager, WebhookSettings
from mooring.live import ServerSettings
from tests.apiserver.volcano_admission.reviewing import TEMPLATE, job, queue
from tests.controllers.world import World, controllers
from tests.waiting import until

PATHS = tuple(each.path for each in HOOKS)
NAMES = CertificateSettings(service="hook", namespace="kube-system", configuration="hooks", check_seconds=0.02)


@contextlib.asynccontextmanager
async def webhook(world: World, certificates: CertificateSettings = NAMES) -> AsyncIterator[ControllerManager]:
    settings = WebhookSettings(paths=PATHS, certificates=certificates)
    serve = ServerSettings(port=0, look_up_authority=False)
    async with controllers(world, webhook=settings, serve=serve) as manager:
        yield manager


async def secret(world: World) -> dict[str, str]:
    found = await world.get("/api/v1/namespaces/kube-system/secrets/hook-certificate")
    return {} if found is None else {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


class Caller:
    """Calls the webhook as the API server does."""

    def __init__(self, manager: ControllerManager, authorities: str) -> None:
        assert manager.server is not None
        self.url = manager.server.url
        self._tls = ssl.create_default_context(cadata=authorities)

    async def raw(self, path: str, body: bytes, content: str = "application/json") -> tuple[int, bytes]:
        async with aiohttp.ClientSession() as session:
            headers = {"Content-Type": content}
            options: dict[str, Any] = {"ssl": self._tls, "server_hostname": "hook.kube-system.svc"}
            async with session.post(self.url + path, data=io.BytesIO(body), headers=headers, **options) as answer:
                return answer.status, await answer.read()

    async def ask(self, path: str, document: Any, *, operation: str = "CREATE", **more: Any) -> dict[str, Any]:
        hook = next(each for each in HOOKS if each.path == path)
        resource = {"group": hook.group, "version": hook.version, "resource": hook.resource}
        request = {"uid": "u", "operation": operation, "resource": resource, "namespace": "default", **more}
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {**request, "object": document},
        }
        status, answer = await self.raw(path, json.dumps(body).encode())
        assert status == 200, answer
        response: dict[str, Any] = json.loads(answer)["response"]
        assert response["uid"] == "u"
        return response


@contextlib.asynccontextmanager
async def calling(world: World) -> AsyncIterator[Caller]:
    async with webhook(world) as manager:
        found = await until(lambda: secret(world))
        assert manager.server is not None
        caller = Caller(manager, found["ca.crt"])

        async def served() -> bool:
            try:
                return bool(await caller.ask("/queues/validate", queue("x")))
            except aiohttp.ClientSSLError:
                return False

        await until(served)
        yield caller


async def test_reviews(world: World) -> None:
    await world.merge(
        "/api/v1/namespaces/default", {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "theirs"}}}
    )
    async with calling(world) as caller:
        assert await caller.ask("/jobs/validate", job()) == {"uid": "u", "allowed": True}
        warned = await caller.ask("/jobs/validate", job(plugins={"svc": ["--enable-networking"] * 20}))
        assert warned["allowed"]
        assert len(warned["warnings"]) == 10
        assert "plugin svc: unknown argument '--enable-networking'" in warned["warnings"][0]
        refused = await caller.ask("/jobs/validate", job(queue="none", plugins={"nope": []}))
        assert not refused["allowed"]
        assert "unable to find job plugin: nope; unable to find job queue" in refused["status"]["message"]
        await world.queue("parent")
        await world.queue("child", parent="parent")

        async def protected() -> bool:
            found = await caller.ask("/queues/validate", None, operation="DELETE", name="parent")
            return "1 child queues: child" in found.get("status", {}).get("message", "")

        await until(protected)
        given = job({"replicas": 2, "template": TEMPLATE})
        answer = await caller.ask("/jobs/mutate", given)
        assert answer["patchType"] == "JSONPatch"
        patched = json_patch(given, json.loads(base64.b64decode(answer["patch"])))
        assert (patched["spec"]["minAvailable"], patched["spec"]["tasks"][0]["name"]) == (2, "default0")
        group = {"metadata": {"name": "g"}, "spec": {"queue": "default"}}
        answer = await caller.ask("/podgroups/mutate", group)
        assert json.loads(base64.b64decode(answer["patch"])) == [
            {"op": "replace", "path": "/spec/queue", "value": "theirs"}
        ]
        assert await caller.ask("/podgroups/mutate", {**group, "spec": {"queue": "q"}}) == {"uid": "u", "allowed": True}


REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u", "operation": "CREATE", "object": {},
        "resource": {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
    },
}  # fmt: skip


def changed(**request: Any) -> bytes:
    return json.dumps({**REVIEW, "request": {**REVIEW["request"], **request}}).encode()


async def test_hostile_requests(world: World) -> None:
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    async with calling(world) as caller:
        for body, status, text in (
            (b"", 400, "not an AdmissionReview"),
            (b"\xff\xfe", 400, "not an AdmissionReview"),
            (b"[]", 400, "not an AdmissionReview"),
            (b"{}", 400, "expected admission.k8s.io/v1 AdmissionReview"),
            (json.dumps({**REVIEW, "request": None}).encode(), 400, "request: missing"),
            (changed(resource={"group": "", "resource": "pods"}), 400, "is not reviewed here"),
            (changed(operation="DELETE"), 400, "request.operation"),
            (changed(operation="UPDATE"), 400, "request.oldObject: missing"),
            (changed(object=None), 400, "request.object: missing"),
            (changed(object="x"), 400, "not an AdmissionReview"),
            (changed().replace(b"{}", deep), 400, ""),
            (b"x" * (4 * 1024 * 1024 + 1), 413, "more than 4194304 bytes"),
        ):
            found = await caller.raw("/jobs/validate", body)
            assert found[0] == status, found
            assert text in found[1].decode()
            assert b"Traceback" not in found[1]
        assert (await caller.raw("/jobs/validate", changed(), "text/plain"))[0] == 415
        assert (await caller.raw("/none", changed()))[0] == 404
        # An object of a wrong type is refused, not an error.
        assert (await caller.ask("/jobs/validate", {"spec": []}))["allowed"] is False
        assert (await caller.ask("/jobs/mutate", {"spec": []}))["allowed"] is True


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"a": 1}),
        ({"a/b~c": {"x": [1, 2]}}, {"a/b~c": {"x": [1, 3]}}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": 1, "b": 2}, {"b": True}),
        ({"a": 0}, {"a": False}),
        ({"a": {"b": None}}, {"a": {}}),
    ],
)
def test_patches(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = json_patch(old, patch_between(old, new))
    assert json.dumps(found, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert patch_between(new, new) == []
