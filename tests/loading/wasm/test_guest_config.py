"""Guests named in a configuration file: found, loaded, enabled, and run by a simulation."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.loading import PluginLoadError, load_setup
from tests.loading.wasm.guests import module
from tests.loading.wasm.test_guest_pool import NAME, REASON, WHOLE

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


def test_a_guest_is_found_by_its_arguments(config: Path) -> None:
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
def test_what_is_wrong_is_told_without_a_traceback(config: Path, more: str, message: str) -> None:
    config.write_text(CONFIG.format(url=f"file://{config.parent}/guest.wasm", more=more))
    done = CliRunner().invoke(main, ["config", "view", str(config)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"{config}:6: profiles[0].pluginConfig[0].args: Whatever: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_simulation_with_a_guest(config: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    done = CliRunner().invoke(main, ["simulate", "-f", str(cluster), "--config", str(config), "-o", "json"])
    assert done.exit_code == 0, done.output
    assert '"n7"' in done.stdout
    assert '"node": "n1"' not in done.stdout
