"""Guests in a configuration: arguments, fetching the module, and errors."""

from __future__ import annotations

import functools
import hashlib
import http.server
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.certificates import make_certificate
from mooring.cli.main import main
from mooring.loading import PluginLoadError, load_setup
from mooring.loading.wasm.guest_config import is_guest
from mooring.loading.wasm.guest_plugin import guest_plugin
from tests.loading.wasm.guests import module
from tests.loading.wasm.test_guest_pool import NAME, REASON, WHOLE
from tests.log_capture import capture_logs

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  plugins: {{multiPoint: {{enabled: [{{name: Whatever, weight: 1000}}]}}}}
  pluginConfig: [{{name: Whatever, args: {{guestURL: "{url}", {more}}}}}]
"""
CLUSTER = """\
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n7}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: one, containers: [{name: c, image: i}]}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "guest.wasm").write_bytes(module(WHOLE, imports=REASON + NAME))
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIG.format(url=f"file://{tmp_path}/guest.wasm", more=""))
    return path


def test_a_plugin_with_guest_url_is_a_guest(config: Path) -> None:
    setup = load_setup(config.read_text(), source="scheduler.yaml")
    found = setup.catalog.found["Whatever"]
    assert found.source == f"guestURL file://{config.parent}/guest.wasm"
    assert len(found.sha256) == 64
    points = {point for point, enabled in setup.config.profiles[0].plugins.items() if "Whatever" in str(enabled)}
    assert points == {"preFilter", "filter", "score", "reserve", "permit", "preBind", "bind", "postBind"}


def test_two_profiles_may_share_a_guest_but_not_a_name(config: Path) -> None:
    profile = config.read_text().split("profiles:\n")[1]
    again = config.read_text() + profile.replace("one", "two")
    assert len(load_setup(again, source="s").config.profiles) == 2
    changed = again.replace("guest.wasm", "other.wasm", 1)
    with pytest.raises(PluginLoadError, match=r"^s:9: profiles\[1\]\.pluginConfig\[0\]\.args: another profile has "):
        load_setup(changed, source="s")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('sha256: "' + "0" * 64 + '"', "not 0000"),
        ("memoryLimit: lots", "memoryLimit: "),
        ("guestConfigs: x", "unknown field `guestConfigs`"),
    ],
)
def test_errors_have_no_traceback(config: Path, more: str, message: str) -> None:
    config.write_text(CONFIG.format(url=f"file://{config.parent}/guest.wasm", more=more))
    done = CliRunner().invoke(main, ["config", "view", str(config)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"{config}:6: profiles[0].pluginConfig[0].args: Whatever: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_simulate_with_a_guest(config: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    done = CliRunner().invoke(main, ["simulate", "-f", str(cluster), "--config", str(config), "-o", "json"])
    assert done.exit_code == 0, done.output
    assert '"n7"' in done.stdout
    assert '"node": "n1"' not in done.stdout


FILTER = '(func (export "filter") (result i32) (i32.const 0))'
GUEST = module(FILTER)
DIGEST = hashlib.sha256(GUEST).hexdigest()


@pytest.fixture
def guest_file(tmp_path: Path) -> Path:
    path = tmp_path / "guest.wasm"
    path.write_bytes(GUEST)
    return path


def load_error(args: Any) -> str:
    with pytest.raises(PluginLoadError) as refused:
        guest_plugin("Guest", args)
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_from_a_file(guest_file: Path) -> None:
    plugin = guest_plugin("Anything", {"guestURL": f"file://{guest_file}"})
    assert plugin.name == "Anything"


def test_a_path_relative_to_the_working_directory(guest_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(guest_file.parent)
    assert guest_plugin("Guest", {"guestURL": "file://guest.wasm"}).name == "Guest"


@pytest.mark.parametrize("sha256", [DIGEST, DIGEST.upper(), f"sha256:{DIGEST}"])
def test_a_matching_checksum(guest_file: Path, sha256: str) -> None:
    assert guest_plugin("Guest", {"guestURL": f"file://{guest_file}", "sha256": sha256})


def test_a_wrong_checksum(guest_file: Path) -> None:
    text = load_error({"guestURL": f"file://{guest_file}", "sha256": "0" * 64})
    assert f"its sha256 is {DIGEST}, not {'0' * 64}" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"guestURL": "/plugins/x.wasm"}, "Guest: guestURL '/plugins/x.wasm' must begin with file://, http:// or https://"),
        ({"guestURL": "oci://x"}, "Guest: guestURL 'oci://x' must begin with file://, http:// or https://"),
        ({"guestURL": "file://a", "logSeverity": 4}, "Guest: logSeverity is 4; it must be 0 (info) to 3 (fatal)"),
        ({"guestURL": "file://a", "sha256": "abc"}, "Guest: sha256 must be 64 hexadecimal digits"),
        ({"guestURL": "file://a", "timeLimit": "0s"}, "Guest: timeLimit '0s' must be positive"),
        ({"guestURL": "file://a", "timeLimit": "soon"}, 'Guest: "soon" is not a duration: write a number'),
        ({"guestURL": "file://a", "memoryLimit": "lots"}, "Guest: memoryLimit: "),
        ({"guestURL": "file://a", "memoryLimit": "1Ki"}, "Guest: memoryLimit '1Ki' is less than one page"),
        ({"guestURL": "file://a", "guestConfig": {"a": 1}}, "Guest: guestConfig: Expected `str`, got `object`"),
        ({"guestURL": "file://a", "guestUrl": "b"}, "Guest: Object contains unknown field `guestUrl`"),
    ],
)  # fmt: skip
def test_invalid_arguments(args: Any, message: str) -> None:
    assert load_error(args).startswith(message)


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "gone.wasm"
    assert load_error({"guestURL": f"file://{path}"}) == (
        f"Guest: guestURL file://{path}: no such file (the path in it is {path})"
    )
    assert "is not a regular file" in load_error({"guestURL": f"file://{tmp_path}"})
    assert "is not a regular file" in load_error({"guestURL": "file:///dev/zero"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a WebAssembly module; use the .wasm file that the compiler wrote"),
        (b"(module)", "is not a WebAssembly module"),
        (b"\0asm\x01\0\0\0\xff", "is not a valid WebAssembly module: "),
        (GUEST[:-3], "is not a valid WebAssembly module: "),
    ],
)
def test_a_file_that_is_not_a_module(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "guest.wasm"
    path.write_bytes(content)
    assert message in load_error({"guestURL": f"file://{path}"})


@contextmanager
def serving(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as served:
        if tls is not None:
            served.socket = tls.wrap_socket(served.socket, server_side=True)
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture
def server(guest_file: Path) -> Iterator[str]:
    with serving(guest_file.parent) as url:
        yield url


def test_over_http(server: str) -> None:
    with capture_logs() as lines:
        assert guest_plugin("Guest", {"guestURL": f"{server}/guest.wasm"})
    assert [(line["log_level"], line["sha256"]) for line in lines] == [("warning", DIGEST)]
    with capture_logs() as lines:
        assert guest_plugin("Guest", {"guestURL": f"{server}/guest.wasm", "sha256": DIGEST})
    assert lines == []


def test_http_errors(server: str) -> None:
    url = f"{server}/gone.wasm"
    assert load_error({"guestURL": url}) == f"Guest: guestURL {url}: the server answered 404 File not found"
    text = load_error({"guestURL": "http://127.0.0.1:1/guest.wasm"})
    assert text.startswith("Guest: guestURL http://127.0.0.1:1/guest.wasm: cannot be reached: ")


def test_over_https(guest_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a server with a trusted certificate, without a checksum; not from other servers."""
    made = make_certificate()
    for name in ("certificate", "key", "authority"):
        (tmp_path / name).write_text(getattr(made, name))
    (tmp_path / "another").write_text(make_certificate().authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    with serving(guest_file.parent, tls) as server:
        url = f"{server}/guest.wasm"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority"))
        with capture_logs() as lines:
            assert guest_plugin("Guest", {"guestURL": url}).sha256 == DIGEST
        assert lines == []
        assert f"its sha256 is {DIGEST}, not {'0' * 64}" in load_error({"guestURL": url, "sha256": "0" * 64})
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "another"))
        assert re.search("cannot be reached: .*certificate verify failed", load_error({"guestURL": url}))


@pytest.mark.parametrize(
    ("args", "expected"), [({"guestURL": "x"}, True), ({"reverse": True}, False), (None, False), ("guestURL", False)]
)
def test_is_guest(args: object, expected: bool) -> None:
    assert is_guest(args) == expected
