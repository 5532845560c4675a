"""`mooring plugin debug`, with the debugger's commands on standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mooring.api.yaml_writer import documents_text
from mooring.cli.main import main
from mooring.testing import PluginCluster, make_pod
from tests.simulation.manifests import node, pod

PLUGIN = """\
from mooring.framework import Plugin


class Prices(Plugin):
    def setup(self):
        self.prices = {"a": 1}

    def filter(self, state, pod, node):
        return None

    def score(self, state, pod, node):
        price = self.price(node)
        return 100 - price

    def price(self, node):
        return self.prices[node.name]

    def permit(self, state, pod, node_name):
        return None
"""
RIGHT = PLUGIN.replace('{"a": 1}', '{"a": 1, "b": 2}')


@pytest.fixture
def debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(plugin: str, *commands: str, arguments: tuple[str, ...] = (), key: str = "default/web") -> Result:
        Path("prices.py").write_text(plugin)
        Path("m.yaml").write_text(documents_text([node("a"), node("b"), pod("web")]))
        given = arguments or ("-f", "m.yaml")
        trace, hook = sys.gettrace(), sys.breakpointhook
        result = CliRunner().invoke(
            main,
            ["plugin", "debug", "prices.py", "--pod", key, *given],
            input="".join(f"{each}\n" for each in commands),
        )
        assert (sys.gettrace(), sys.breakpointhook) == (trace, hook), "nothing is left behind"
        return result

    return run


def stops(result: Result) -> list[str]:
    """Return the places where the debugger stopped: ``prices.py(6)setup()``."""
    return [line.rpartition("/")[2] for line in result.stdout.splitlines() if "> /" in line]


def test_it_stops_at_the_first_call_of_each_method(debug: Any) -> None:
    result = debug(RIGHT, "c", "p pod.key, node.name", "c", "c", "c")
    assert stops(result) == [
        "prices.py(6)setup()",
        "prices.py(9)filter()",
        "prices.py(12)score()",
        "prices.py(19)permit()",
    ]
    assert "('default/web', 'a')" in result.stdout
    assert result.stdout.endswith("pod default/web: node a\n")
    assert result.exit_code == 0, result.output


def test_where_a_plugin_raises_its_frames_can_be_inspected(debug: Any) -> None:
    result = debug(PLUGIN, "c", "c", "c", "p node.name", "w", "up", "c")
    assert stops(result)[3:] == ["prices.py(16)price()", "prices.py(16)price()", "prices.py(12)score()"]
    assert "*** prices.py:16 in price: KeyError: 'b'" in result.stdout
    assert "(Pdb) 'b'\n" in result.stdout
    assert "src/mooring" not in result.stdout, "only the author's frames are shown"
    assert result.stdout.endswith(
        "pod default/web: running Score plugin \"Prices\": prices.py:16 in price: KeyError: 'b'\nnot called: permit\n"
    )
    assert result.exit_code == 1


def test_steps_stay_in_the_plugin(debug: Any) -> None:
    result = debug(RIGHT, "c", *["s"] * 12, "q")
    assert len(stops(result)) == 14
    assert all(place.startswith("prices.py") for place in stops(result))


def test_it_stops_at_breakpoint(debug: Any) -> None:
    for call in ("breakpoint()", "import pdb; pdb.set_trace()"):
        result = debug(RIGHT.replace("price = self", f"{call}; price = self"), "c", "c", "c", "p node.name", "q")
        assert len(stops(result)) == 4
        assert stops(result)[3].startswith(("prices.py(12)score()", "prices.py(15)price()"))
        assert "(Pdb) 'a'\n" in result.stdout


def test_breakpoints_can_be_set(debug: Any) -> None:
    result = debug(RIGHT, "b 16", "c", "c", "c", "p node.name", "c", "p node.name", "c", "c")
    assert stops(result) == [
        "prices.py(6)setup()",
        "prices.py(9)filter()",
        "prices.py(12)score()",
        "prices.py(16)price()",
        "prices.py(16)price()",
        "prices.py(19)permit()",
    ]
    assert result.stdout.endswith("pod default/web: node a\n")


@pytest.mark.parametrize("commands", [("q",), (), ("c", "c", "q")])
def test_the_attempt_can_be_left(debug: Any, commands: tuple[str, ...]) -> None:
    result = debug(PLUGIN, *commands)
    assert result.exit_code == 0
    assert "pod default/web" not in result.stdout


def test_setup_can_be_debugged(debug: Any) -> None:
    result = debug(PLUGIN.replace('{"a": 1}', "1 / 0"), "c", "p self.name", "c")
    assert stops(result) == ["prices.py(6)setup()", "prices.py(6)setup()"]
    assert "(Pdb) 'Prices'\n" in result.stdout
    assert result.exit_code == 1
    assert 'initializing plugin "Prices": prices.py:6 in setup: ZeroDivisionError: division by zero' in result.stderr


def test_a_gated_pod(debug: Any) -> None:
    plugin = RIGHT + '\n    def pre_enqueue(self, pod):\n        return "not yet"\n'
    result = debug(plugin, "c", "c")
    assert result.stdout.splitlines()[-2:] == [
        "(Pdb) pod default/web: gated by PreEnqueue plugin Prices: not yet",
        "not called: filter, score, permit",
    ]


def test_a_plugin_with_isolation_is_debugged_in_this_process(debug: Any, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Prices}]}}}]\n---\n"
        "apiVersion: mooring.dev/v1alpha1\nkind: PluginSources\n"
        f"plugins: [{{name: Prices, path: {tmp_path}/prices.py, isolation: process}}]\n"
    )
    result = debug(RIGHT, *["c"] * 4, arguments=("-f", "m.yaml", "--config", "config.yaml"))
    assert len(stops(result)) == 4
    assert result.stdout.endswith("pod default/web: node a\n"), result.output


def test_a_live_cluster(debug: Any) -> None:
    with PluginCluster(nodes=2) as cluster:
        cluster.start()
        cluster.add(make_pod("web").obj())
        cluster.node_of("web")
        result = debug(
            RIGHT.replace('{"a": 1, "b": 2}', '{"node-0": 7, "node-1": 2}'),
            *["c"] * 4,
            arguments=("--kubeconfig", str(cluster.kubeconfig)),
        )
    assert len(stops(result)) == 4
    assert result.stdout.endswith("pod default/web: node node-1\n"), result.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("-f", "-"), 2, "standard input is for the debugger"),
        (("-f", "none.yaml"), 1, "none.yaml: no such file"),
        (("--kubeconfig", "none"), 1, "none"),
        (("-f", "m.yaml", "--pod", "a/b/c"), 2, "give NAMESPACE/NAME"),
        (("-f", "m.yaml", "--pod", "other"), 1, "pod default/other is not there"),
    ],
)
def test_wrong_arguments(debug: Any, arguments: tuple[str, ...], code: int, text: str) -> None:
    result = debug(RIGHT, "c", "c", arguments=arguments)
    assert result.exit_code == code
    assert text in result.stderr


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        ("x = 1\n", "prices.py: defines no plugin"),
        ("class Mine:\n    def on_session_open(self, session): ...\n", "prices.py: defines only plugins for batch"),
        ("class (", "prices.py:1: "),
    ],
)
def test_files_without_a_plugin_to_debug(debug: Any, plugin: str, text: str) -> None:
    result = debug(plugin)
    assert result.exit_code == 1
    assert text in result.stderr
