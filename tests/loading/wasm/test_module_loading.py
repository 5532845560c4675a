"""From `pluginConfig` args to a plugin class: fetched, pinned, checked; every fault is one sentence with a remedy."""

from __future__ import annotations

import functools
import hashlib
import http.server
import re
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.certificates import make_certificate
from mooring.loading import PluginLoadError
from mooring.loading.wasm import guest_plugin, is_guest, plugin_from_module
from tests.loading.wasm.guests import module

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


def test_relative_to_where_mooring_was_started(guest_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(guest_file.parent)
    assert guest_plugin("Guest", {"guestURL": "file://guest.wasm"}).name == "Guest"


def test_a_module_is_compiled_once(guest_file: Path) -> None:
    first = guest_plugin("One", {"guestURL": f"file://{guest_file}"})
    second = guest_plugin("Two", {"guestURL": f"file://{guest_file}"})
    assert first.module is second.module  # type: ignore[attr-defined]


@pytest.mark.parametrize("sha256", [DIGEST, DIGEST.upper(), f"sha256:{DIGEST}"])
def test_with_its_checksum(guest_file: Path, sha256: str) -> None:
    assert guest_plugin("Guest", {"guestURL": f"file://{guest_file}", "sha256": sha256})


def test_with_another_checksum(guest_file: Path) -> None:
    text = load_error({"guestURL": f"file://{guest_file}", "sha256": "0" * 64})
    assert f"its sha256 is {DIGEST}, not {'0' * 64}" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"guestURL": "/plugins/x.wasm"}, "Guest: guestURL '/plugins/x.wasm' must begin with file://, http:// or https://"),
        ({"guestURL": "oci://x"}, "Guest: guestURL 'oci://x' must begin with file://, http:// or https://"),
        ({"guestURL": "file://a", "logSeverity": 4}, "Guest: logSeverity is 4; it must be 0 (info) to 3 (fatal)"),
        ({"guestURL": "file://a", "sha256": "abc"}, "Guest: sha256 must be 64 hexadecimal digits"),
        ({"guestURL": "file://a", "timeLimit": "0s"}, "Guest: timeLimit '0s' must be more than nothing"),
        ({"guestURL": "file://a", "timeLimit": "soon"}, 'Guest: "soon" is no duration: write a number with its unit'),
        ({"guestURL": "file://a", "memoryLimit": "lots"}, "Guest: memoryLimit: "),
        ({"guestURL": "file://a", "memoryLimit": "1Ki"}, "Guest: memoryLimit '1Ki' is less than one page"),
        ({"guestURL": "file://a", "guestConfig": {"a": 1}}, "Guest: guestConfig: Expected `str`, got `object`"),
        ({"guestURL": "file://a", "guestUrl": "b"}, "Guest: Object contains unknown field `guestUrl`"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be(args: Any, message: str) -> None:
    assert load_error(args).startswith(message)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "gone.wasm"
    assert load_error({"guestURL": f"file://{path}"}) == (
        f"Guest: guestURL file://{path}: no such file (the path in it is {path})"
    )
    assert "Is a directory" in load_error({"guestURL": f"file://{tmp_path}"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no WebAssembly module; give the .wasm file that your compiler wrote"),
        (b"(module)", "is no WebAssembly module"),
        (b"\0asm\x01\0\0\0\xff", "is no valid WebAssembly module: "),
        (GUEST[:-3], "is no valid WebAssembly module: "),
    ],
)
def test_what_is_no_module(tmp_path: Path, content: bytes, message: str) -> None:
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


def test_over_http_in_vain(server: str) -> None:
    url = f"{server}/gone.wasm"
    assert load_error({"guestURL": url}) == f"Guest: guestURL {url}: the server answered 404 File not found"
    text = load_error({"guestURL": "http://127.0.0.1:1/guest.wasm"})
    assert text.startswith("Guest: guestURL http://127.0.0.1:1/guest.wasm: cannot be reached: ")


def test_over_https(guest_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a server whose certificate is trusted, which needs no checksum; from no other."""
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


READ = '(import "k8s.io/scheduler" "currentPod" (func (param i32) (result i32)))'


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        (module(""), "exports no plugin function; it must export filter or score, say"),
        (module('(func (export "fliter") (result i32) (i32.const 0))'), "exports no plugin function"),
        (module('(func (export "prescore") (result i32) (i32.const 0))'), "exports prescore alone"),
        (module('(func (export "postbind"))'), "exports postbind alone"),
        (module('(func (export "filter") (result i64) (i64.const 0))'), "exports filter as () -> (i64); it must be"),
        (module('(func (export "score") (param i32))'), "exports score as (i32) -> (); it must be () -> (i64)"),
        (module(FILTER, imports='(import "env" "f" (func))'), "imports env.f, which no scheduler has"),
        (module(FILTER, imports=READ), "imports k8s.io/scheduler.currentPod as (i32) -> (i32); it is"),
        (module('(func (export "mooring_filter") (param i32) (result i32) (i32.const 0))'),
         "has batch functions, so it must export mooring_alloc, mooring_columns"),
    ],
)  # fmt: skip
def test_modules_that_are_no_guests(guest: bytes, message: str) -> None:
    with pytest.raises(PluginLoadError) as refused:
        plugin_from_module("Guest", guest)
    assert f"Guest: the guest {message}" in str(refused.value)


def test_a_guest_without_memory() -> None:
    guest = module(FILTER).replace(b"\x06memory", b"\x06nemory")
    with pytest.raises(PluginLoadError, match="exports no memory"):
        plugin_from_module("Guest", guest)


def test_without_wasmtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    assert load_error({"guestURL": "file://x"}) == (
        "Guest: WebAssembly guests need wasmtime, which is not installed; run pip install 'mooring[wasm]'"
    )


@pytest.mark.parametrize(
    ("args", "expected"), [({"guestURL": "x"}, True), ({"reverse": True}, False), (None, False), ("guestURL", False)]
)
def test_what_makes_a_plugin_a_guest(args: object, expected: bool) -> None:
    assert is_guest(args) == expected
