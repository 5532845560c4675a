"""The commands `replay` and `recording`: what they print, and messages for files that they cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.config import default_config
from mooring.live.recording import LiveRecording
from mooring.scheduler.recorded_engine import RecordedEngine
from mooring.testing import make_node, make_pod

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "examples/demo/cluster")
PACKED = str(ROOT / "examples/record/packed.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recording of two decisions."""
    recording = LiveRecording(tmp_path_factory.mktemp("records"), default_config())
    engine = RecordedEngine(
        default_config(),
        inputs=recording.inputs,
        describe=lambda config: recording.describe(config, plugins=tuple),
        rng=recording.rng,
    )
    for name in ("a", "b"):
        engine.put(make_node(name).capacity({"cpu": 4, "pods": 10}).obj())
    engine.put(make_pod("fits").uid("1").req({"cpu": 1}).obj())
    engine.put(make_pod("huge").uid("2").req({"cpu": 100}).obj())
    while engine.queue.ready:
        engine.schedule_one()
    recording.close()
    return str(recording.writer.path)


def test_a_recording_is_repeated(recorded: str) -> None:
    done = run("replay", recorded)
    assert done.exit_code == 0, done.output
    assert "2 decisions: all identical (1 pods placed, 1 attempts failed)." in done.output
    assert json.loads(run("replay", recorded, "-o", "json").stdout)["different"] == 0


def test_the_decisions_of_a_recording_are_a_table(recorded: str) -> None:
    lines = [json.loads(line) for line in run("recording", recorded, "--table", "decisions").stdout.splitlines()]
    assert [(line["pod"], line["outcome"]) for line in lines] == [
        ("default/fits", "placed"),
        ("default/huge", "unschedulable"),
    ]
    assert lines[1]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu")
    summary = json.loads(run("recording", recorded, "-o", "json").stdout)
    assert summary["events"] == {"put": 4, "attempt": 2, "start": 1}


def test_another_configuration_is_compared() -> None:
    done = run("replay", DEMO, "--compare", "--config", PACKED, "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["moved"]
    assert found["before"]["bound"] > 100
    assert "GPU allocation ratio (GAR)" in {each["metric"] for each in found["metrics"]}
    table = run("replay", DEMO, "--compare", "--config", PACKED, "--price", "gpu-a1=2").output
    assert "pods: " in table
    assert "cost" in table


def test_the_same_configuration_moves_no_pod() -> None:
    found = json.loads(run("replay", DEMO, "--compare", "-o", "json").stdout)
    assert (found["moved"], found["waitLonger"], found["waitShorter"]) == ([], [], [])


def test_a_comparison_without_new_pods_says_so(tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 4, pods: 10}}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: waits}, spec: {containers: [{name: c, image: i,"
        " resources: {requests: {cpu: 9}}}]}}\n"
    )
    done = run("replay", str(manifest), "--compare", "--config", PACKED)
    assert "No pod got a node." in done.output, done.output
    assert "No pod got a node." not in run("replay", DEMO, "--compare", "--config", PACKED).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "missing.mooring"], "missing.mooring: no such file or folder"),
        (["recording", PACKED], "not a recording"),
        (["replay", DEMO, "--price", "x"], "--price x: give TYPE=PRICE"),
    ],
)
def test_mistakes_are_explained_in_a_line(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert message in done.output
    assert "Traceback" not in done.output
