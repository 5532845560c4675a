"""Tokens, certificates and plugins, as they rotate."""

import asyncio
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mooring.api import ObjectMeta, Pod
from mooring.kube import Access, AccessError, Client, ExecPlugin, Unauthorized, User
from mooring.kube.exec_plugin import ExecIdentity
from mooring.kube.identity import FileIdentity, Identity, identity_source
from tests.kube.server import CERTS, Api

V1 = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "token"
    path.write_text("one\n")
    source = FileIdentity(User(token_file=str(path)), clock=clock)
    assert source.fresh() is None
    assert (await source.get()).authorization == "Bearer one"
    path.write_text("two\n")
    clock.now += 59
    assert (await source.get()).authorization == "Bearer one"
    clock.now += 1
    assert source.fresh() is None
    assert (await source.get()).authorization == "Bearer two"
    # A file that cannot be read for a moment, while it is being replaced, does no harm.
    path.unlink()
    clock.now += 60
    assert (await source.get()).authorization == "Bearer two"


async def test_a_rejected_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = FileIdentity(User(token_file=str(path)), clock=Clock())
    identity = await source.get()
    path.write_text("two")
    source.reject(Identity("Bearer some older one"))
    assert source.fresh() is identity
    source.reject(identity)
    assert (await source.get()).authorization == "Bearer two"


async def test_the_token_beside_a_token_file_is_for_when_the_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "token"
    user = User(token="spare", token_file=str(path))
    assert (await FileIdentity(user).get()).authorization == "Bearer spare"
    path.write_text("own")
    assert (await FileIdentity(user).get()).authorization == "Bearer own"


async def test_an_empty_token_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" \n")
    with pytest.raises(AccessError, match="is empty; a token is needed"):
        await FileIdentity(User(token_file=str(path))).get()


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        (User(), ""),
        (User(token="t"), "Bearer t"),
        (User(username="me", password="pw"), "Basic bWU6cHc="),
        (User(token="t", exec_plugin=ExecPlugin("/nonexistent", V1)), "Bearer t"),
    ],
)
async def test_what_is_written_out(user: User, authorization: str) -> None:
    source = identity_source(Access(server="https://k", user=user))
    assert (await source.get()).authorization == authorization


def plugin(folder: Path, body: str, **options: Any) -> ExecPlugin:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{textwrap.dedent(body)}")
    path.chmod(0o755)
    return ExecPlugin(str(path), V1, **options)


def credential(**status: Any) -> str:
    return f"print({json.dumps({'apiVersion': V1, 'kind': 'ExecCredential', 'status': status})!r})"


def source_of(found: ExecPlugin, clock: Clock | None = None, **options: Any) -> ExecIdentity:
    access = Access(server="https://k:6443", ca=b"PEM", tls_server_name="kube.test", origin="config")
    return ExecIdentity(found, access, now=clock or Clock(), **options)


async def test_a_plugin_runs_once_until_its_token_expires(tmp_path: Path) -> None:
    clock = Clock()
    body = f"""
    with open({str(tmp_path / "runs")!r}, "a") as runs: runs.write("x")
    n = os.path.getsize({str(tmp_path / "runs")!r})
    print(json.dumps(dict(apiVersion="{V1}", kind="ExecCredential",
        status=dict(token="t%d" % n, expirationTimestamp="1970-01-01T00:20:00Z"))))
    """
    source = source_of(plugin(tmp_path, body), clock)
    tokens = await asyncio.gather(*(source.get() for _ in range(5)))
    assert {each.authorization for each in tokens} == {"Bearer t1"}
    clock.now = 1200.0
    assert source.fresh() is not None
    clock.now = 1200.5
    assert source.fresh() is None
    renewed = await source.get()
    assert renewed.authorization == "Bearer t2"
    clock.now = 1000.0
    source.reject(tokens[0])
    assert source.fresh() is renewed
    source.reject(renewed)
    assert (await source.get()).authorization == "Bearer t3"


async def test_a_plugin_learns_about_the_cluster(tmp_path: Path) -> None:
    body = f"""
    info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    print(json.dumps(dict(apiVersion="{V1}", kind="ExecCredential",
        status=dict(token=os.environ["EXTRA"] + sys.argv[1] + json.dumps(info, sort_keys=True)))))
    """
    found = plugin(
        tmp_path, body, args=("-a",), env=(("EXTRA", "e"),), provide_cluster_info=True, cluster_config={"aud": 1}
    )
    identity = await source_of(found).get()
    assert identity.authorization.startswith("Bearer e-a")
    info = json.loads(identity.authorization.removeprefix("Bearer e-a"))
    assert info["apiVersion"] == V1
    assert info["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://k:6443",
            "tls-server-name": "kube.test",
            "certificate-authority-data": "UEVN",
            "config": {"aud": 1},
        },
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.stderr.write('log in first'); sys.exit(3)", "failed with status 3: log in first; install me"),
        ("print('secret nonsense')", "did not print an ExecCredential as JSON"),
        ("print('{}')", "printed no version, but the kubeconfig has apiVersion: client."),
        (credential(), "printed no token and no certificate"),
        (credential(clientKeyData="k"), "printed a certificate without a key"),
        (credential(token="t", expirationTimestamp="soon"), "expirationTimestamp: 'soon' is not a timestamp"),
        ("import time; time.sleep(60)", "did not finish within 0.5 s"),
    ],
)
async def test_plugins_that_fail(tmp_path: Path, body: str, said: str) -> None:
    source = source_of(plugin(tmp_path, body, install_hint="install me"), timeout=0.5 if "sleep" in body else 60)
    with pytest.raises(AccessError) as caught:
        await source.get()
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"config: the credential plugin {tmp_path}/plugin ")
    assert "secret" not in str(caught.value)


async def test_a_plugin_that_is_missing(tmp_path: Path) -> None:
    missing = ExecPlugin(str(tmp_path / "none"), V1, install_hint="install me")
    with pytest.raises(AccessError, match="cannot be run: No such file or directory; install me"):
        await source_of(missing).get()


async def test_a_client_renews_a_rejected_token_and_sends_again(tmp_path: Path, tls_api: Api) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    tls_api.tokens = ("old",)
    tls_api.put("/api/v1/nodes/n", {})
    access = Access(server=tls_api.url, ca=(CERTS / "ca.pem").read_bytes(), user=User(token_file=str(path)))
    async with Client(access) as client:
        await client.call("GET", "/api/v1/nodes/n")
        tls_api.tokens = ("new",)
        path.write_text("new")
        await client.call("GET", "/api/v1/nodes/n")
        # The fast writer leaves the renewal to aiohttp and uses the new token afterwards.
        tls_api.tokens = ("newer",)
        path.write_text("newer")
        await _bind(client, tls_api)
        tls_api.tokens = ("unknown",)
        with pytest.raises(Unauthorized):
            await client.call("GET", "/api/v1/nodes/n")


async def _bind(client: Client, api: Api) -> None:
    api.put("/api/v1/namespaces/default/pods/p", {})
    await client.bind(Pod(metadata=ObjectMeta(name="p", namespace="default")), "n")
    assert api.objects["/api/v1/namespaces/default/pods/p"]["spec"]["nodeName"] == "n"
