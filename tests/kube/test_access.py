"""No credential reaches a log, an error message or a repr, whatever fails."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
from collections.abc import Callable

import pytest
from aiohttp import web

from mooring.api import Event, ObjectMeta, Pod
from mooring.kube import Access, Client, Reflector, User
from mooring.kube.access import ExecPlugin
from mooring.kube.leader_election import ApiLeaseStore, ElectionSettings, LeaseElector
from mooring.kube.retry_backoff import Backoff
from tests.kube.server import Api
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE

TOKEN, PASSWORD, SETTING = "sesame-token-1", "sesame-password-2", "sesame-setting-3"
SECRETS = ("sesame", base64.b64encode(f"me:{PASSWORD}".encode()).decode())
POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u"))
EVENT = Event(metadata=ObjectMeta(name="e", namespace="default"))

PRINTS_TOKEN = """echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {"token": "sesame-token-1"}}' """
FAILS = 'echo "cannot log in with $0 $* and $SECRET" >&2; exit 1'


def _exec(script: str) -> ExecPlugin:
    args = ("-c", script, "--password", SETTING, f"--key={SETTING}")
    return ExecPlugin("sh", "client.authentication.k8s.io/v1", args, (("SECRET", SETTING),))


USERS: dict[str, User] = {
    "token": User(token=TOKEN),
    "password": User(username="me", password=PASSWORD),
    "plugin": User(exec_plugin=_exec(PRINTS_TOKEN)),
    "plugin that fails": User(exec_plugin=_exec(FAILS)),
    "plugin that prints no JSON": User(exec_plugin=_exec(f"echo {TOKEN}")),
    "token with a line break": User(token=f"{TOKEN}\nX: {TOKEN}"),
}


def _echo(status: int) -> Callable[[web.Request], web.Response]:
    """A proxy that repeats the request in its answer."""

    def answer(request: web.Request) -> web.Response:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        with contextlib.suppress(ValueError):
            secret += " " + base64.b64decode(secret).decode() if scheme == "Basic" else ""
        text = f"{secret} is not known here: {dict(request.headers)}"
        if status == 409:
            body = {"kind": "Status", "status": "Failure", "code": status, "reason": "Conflict", "message": text}
            return web.json_response(body, status=status)
        return web.Response(status=status, text=text, headers={"X-Echo": text})

    return answer


async def _use(access: Access, tmp: list[str]) -> None:
    """Make every kind of request, and collect what it raises."""
    async with Client(access, rng=_Impatient()) as client:
        tmp.append(repr(client.access))
        elector = LeaseElector(ApiLeaseStore(client), ElectionSettings(identity="me"))
        reflector = Reflector(client, Pod, lambda changes: None, backoff=Backoff(first=0.001, random=random.Random(1)))
        following = asyncio.create_task(reflector.run())
        for call in (
            lambda: client.get(Pod, "p", namespace="default"),
            lambda: client.bind(POD, "n"),
            lambda: client.create_event(EVENT),
            lambda: client.delete(Pod, "p", namespace="default"),
            lambda: client.list(Pod),
            lambda: client.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", b"{}"),
            lambda: elector._attempt(5.0),
        ):
            try:
                await call()
            except Exception as error:
                tmp.append(f"{error} {error!r} {error.__cause__!r}")
        following.cancel()
        tmp.append(str(reflector.last_error))


class _Impatient(random.Random):
    def random(self) -> float:
        return 1.9999999


@pytest.mark.parametrize("status", [200, 401, 409, 500])
@pytest.mark.parametrize("user", USERS)
async def test_no_credential_is_logged_or_shown(api: Api, user: str, status: int) -> None:
    echo = _echo(status)

    async def serve(request: web.Request, body: bytes) -> web.Response:
        return echo(request)

    api._serve = serve  # type: ignore[method-assign]
    await _check(Access(server=api.url, user=USERS[user], origin="kubeconfig"))


@pytest.mark.parametrize("proxy", ["http://me:{}@127.0.0.1:1", "http://me:{}@{}"])
async def test_the_password_of_a_proxy_is_not_logged_or_shown(api: Api, proxy: str) -> None:
    echo = _echo(500)

    async def serve(request: web.Request, body: bytes) -> web.Response:
        return echo(request)

    api._serve = serve  # type: ignore[method-assign]
    address = proxy.format(PASSWORD, api.url.removeprefix("http://"))
    await _check(Access(server="http://cluster.invalid", user=User(token=TOKEN), proxy=address, origin="kubeconfig"))


async def _check(access: Access) -> None:
    shown: list[str] = []
    with capture_logs() as lines:
        async with asyncio.timeout(PATIENCE):
            await _use(access, shown)
    assert len(shown) > 5
    text = json.dumps([shown, [{key: str(value) for key, value in line.items()} for line in lines]])
    assert not [secret for secret in SECRETS if secret in text], text
