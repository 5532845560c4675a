"""How the control plane of the e2e tests is built, with a `go` of our own that only pretends."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.e2e.controlplane import building
from tests.e2e.controlplane.building import BuildError
from tests.e2e.controlplane.credentials import User, write_kubeconfig, write_tokens
from tests.e2e.controlplane.parts import KUBERNETES, PARTS, binary, cache_folder
from tests.e2e.controlplane.processes import Process, StartError, free_port
from tests.waiting import PATIENCE

ROOT = Path(__file__).parent.parent.parent
GO_MOD = """\
module k8s.io/kubernetes

require (
	k8s.io/api v0.0.0
	k8s.io/client-go v0.0.0
	k8s.io/apiserver v0.0.0 // indirect
	k8s.io/utils v0.0.0-20260210185600-b8788abfbbc2
	github.com/spf13/cobra v1.10.2
)
"""
GO = """#!/bin/sh
echo "$@" >> "$FAKE_GO/calls"
case "$1" in
mod) if [ "$2" = download ]; then echo "{{\\"GoMod\\": \\"$FAKE_GO/kubernetes.mod\\"}}"; fi ;;
list) printf 'a\\nb\\n' ;;
build)
    while [ $# -gt 0 ]; do if [ "$1" = -o ]; then out=$2; fi; package=$1; shift; done
    if [ -e "$FAKE_GO/broken" ]; then echo "no required module provides $package" >&2; exit 1; fi
    echo "a" >&2; echo "$package" > "$out" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing built, and a `go` that notes how it is called."""
    folder = tmp_path / "go"
    folder.mkdir()
    (folder / "go").write_text(GO.format())
    (folder / "go").chmod(0o755)
    (folder / "kubernetes.mod").write_text(GO_MOD)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GO", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def calls(go: Path, verb: str) -> list[str]:
    path = go / "calls"
    return [each for each in path.read_text().splitlines() if each.startswith(verb)] if path.exists() else []


def test_builds_what_is_missing_and_nothing_twice(go: Path, tmp_path: Path) -> None:
    """Into the cache, keyed by version; a second call does not even ask go."""
    assert cache_folder() == tmp_path / "cache" / "mooring" / "controlplane" / KUBERNETES
    building.build(["kubectl", "etcd"])
    assert binary("kubectl").read_text().strip() == "k8s.io/kubernetes/cmd/kubectl"
    assert len(calls(go, "build")) == 2
    building.build(["kubectl", "etcd"])
    assert len(calls(go, "build")) == 2
    assert [part.name for part in building.missing(["kubectl", "etcd", "kwok"])] == ["kwok"]


def test_staged_modules_are_replaced(go: Path) -> None:
    """Those that the go.mod of Kubernetes gives as exactly v0.0.0, and no others."""
    building.build(["kubectl"])
    text = (cache_folder() / "src" / "kubernetes" / "go.mod").read_text()
    replaced = [each.split()[1] for each in text.splitlines() if each.startswith("replace")]
    assert replaced == ["k8s.io/api", "k8s.io/client-go", "k8s.io/apiserver"]
    assert f"k8s.io/api v0.{KUBERNETES.partition('.')[2]}" in text


def test_interrupted_builds_go_on(go: Path) -> None:
    """What was built stays; what was not, is built the next time; go's own words are the error."""
    building.build(["kubectl"])
    (go / "broken").touch()
    with pytest.raises(BuildError, match=r"etcd .*go build failed:\nno required module provides ./etcd"):
        building.build(["kubectl", "etcd"])
    assert not binary("etcd").exists()
    (go / "broken").unlink()
    building.build(["kubectl", "etcd"])
    assert [each.split()[-1] for each in calls(go, "build")] == ["k8s.io/kubernetes/cmd/kubectl", "./etcd", "./etcd"]


def test_another_version_is_built_again(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part whose recipe has changed is not up to date."""
    building.build(["etcd"])
    stamp = cache_folder() / "built.json"
    stamp.write_text(json.dumps({"etcd": "an older recipe"}))
    assert [part.name for part in building.missing(["etcd"])] == ["etcd"]


def test_two_builds_wait_for_each_other(go: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the second finds done what the first did."""
    cache_folder().mkdir(parents=True)
    with (cache_folder() / "lock").open("a+") as lock:
        lock.write("4242")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=building.build, args=(["etcd"],))
        second.start()
        second.join(0.3)
        assert second.is_alive()
        assert calls(go, "build") == []
    second.join(PATIENCE)
    assert len(calls(go, "build")) == 1
    assert "another build (process 4242) is under way" in capsys.readouterr().out


def test_without_go_it_says_so_in_one_line(tmp_path: Path) -> None:
    """And not with a traceback."""
    env = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/nowhere", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "tests.e2e.controlplane", "build"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Go is missing: it is needed once, to build kubectl, etcd, kube-apiserver")


def test_unknown_parts_are_named(go: Path) -> None:
    with pytest.raises(BuildError, match="there is no part kubelet; there are kubectl, etcd"):
        building.build(["kubelet"])


def test_only_some_tests_need_helm_and_the_operator() -> None:
    others = ("helm", "operator", "vc-scheduler")
    assert [part.name for part in building.chosen()] == [part.name for part in PARTS if part.name not in others]


def test_tokens_and_kubeconfigs_are_secret(tmp_path: Path) -> None:
    """Only the owner can read them, and a user's repr does not tell."""
    user = User("me", "system:me", ("a", "b"))
    write_tokens(tmp_path / "tokens", (user,))
    path = write_kubeconfig(tmp_path / "config", server="https://127.0.0.1:1", ca=tmp_path / "ca", user=user)
    assert (tmp_path / "tokens").read_text().strip() == f'{user.token},system:me,system:me,"a,b"'
    assert user.token in path.read_text()
    assert user.token not in repr(user)
    assert [oct(each.stat().st_mode & 0o777) for each in (path, tmp_path / "tokens")] == ["0o600", "0o600"]


def test_ports_are_outside_the_range_of_outgoing_connections() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    assert all(20_000 <= port < 30_000 for port in ports)


def test_a_process_can_be_stopped_killed_and_started_again(tmp_path: Path) -> None:
    """Always with the same command, into the same log."""
    process = Process("sleeper", ["sh", "-c", "echo up; exec sleep 600"], tmp_path)
    with process.start():
        first = process.pid
        process.restart(kill=True)
        assert process.pid != first
        assert process.alive
        process.pause()
        process.stop()
        assert process.exit_code == -15
        process.start()
    assert process.exit_code == -15
    assert process.log.read_text().count("$ sh -c") == 3
    assert list((tmp_path / "pids").iterdir()) == []


def test_a_process_that_does_not_start_shows_its_last_words(tmp_path: Path) -> None:
    process = Process("failing", ["sh", "-c", "echo no such flag; exit 3"], tmp_path, ready=lambda: False)
    with pytest.raises(StartError, match=r"failing ended with status 3; its last words:\n[^\n]*\nno such flag"):
        process.start()
