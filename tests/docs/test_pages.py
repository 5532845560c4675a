"""The documentation: its commands work, and show what the text says. Those for kubectl are run by `make e2e`."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.loading.plugin_files import in_folder, load_file
from tests.docs.commands import PAGES, ROOT, Reader, blocks


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("README.md", ["50 nodes, 200 pods; profiles default-scheduler, thrifty"]),
        (
            "docs/quickstart.md",
            [
                "PLACEMENTS",
                "Done in ",
                "Nodes: 12, ready 12",
                "pod/quickstart-07 created",
                "\nnode-07\n",
                "Pod default/quickstart-07 is on node node-07.",
                "0/12 nodes are available: 12 Insufficient cpu",
            ],
        ),
        ("docs/install.md", ["networkmetrics", "mountPath: /tmp", "examples/plugins/cheapest_node\n"]),
        ("docs/migrate.md", ["schedulerName: thrifty", "BlockAllScheduler: ok"]),
        ("docs/operate.md", ["0/4 nodes are available: 4 Insufficient cpu", "NodeNumber"]),
        ("docs/active-active.md", ["coordination.k8s.io"]),
        ("docs/security.md", ["kind: ClusterRole\n", "NodeNumber: ok (score; sha256 ", "\nrejected\n"]),
        (
            "docs/plugins/custom-resources.md",
            ["clusterscopedresources.scheduling.sigs.k8s.io created", "pod/nginx created", "\nnode-2\n"],
        ),
        (
            "docs/batch.md",
            ["podgroup/three created", "three-task-2 node-2", "magic", '"bound":{"default/fits-task-0":"node-1"'],
        ),
        ("docs/plugins/README.md", ["NodeTag: ok (filter, score; sha256 ", "pod/hello created", "\nnode-1\n"]),
        ("docs/plugins/running.md", ["NodeNumber", "examples/plugins/nodenumber/nodenumber.py"]),
        (
            "docs/plugins/testing.md",
            ["NodeNumber: ok (score; sha256 ", "(Pdb) 'node-1'\n", "pod default/web-2: node node-2\n"],
        ),
        ("docs/plugins/wasm.md", ["Headroom", "file://examples/wasm/headroom/headroom.wasm"]),
        (
            "docs/command-line.md",
            [
                "Did you mean --nodes?\nexit code 2\n",
                "No jobs found.",
                "\nplugin/NodeResourcesFit\n",
                "complete -o nosort -F _mooring_completion mooring",
            ],
        ),
        (
            "docs/simulate.md",
            ["EVICTED", "sessions for volcano", "QUEUES", "queue resource quota insufficient: insufficient cpu"],
        ),
        (
            "docs/what-if.md",
            ["pods move", "become schedulable", '"utilization": {', "copies fit. Stopped at --limit 500."],
        ),
        (
            "docs/record-and-replay.md",
            [
                "kind: ClusterRole\n",
                "recorded by `mooring record`",
                '"notRecorded": [',
                "decisions: all identical",
                "synced",
            ],
        ),
        ("docs/dashboard.md", ["kind: ClusterRole\n", "/dashboard/api/what-if"]),
        ("docs/gpu-platforms.md", ["PackNvlink: ok", " passed"]),
        ("docs/tune.md", ["8 trials", "PARETO FRONT", "HELD-OUT WORKLOADS"]),
        ("docs/placement.md", ["2 moves would make room for 2 pods.", '"emptied": [']),
        ("docs/embedded-cluster.md", ["Nodes: 5, ready 5", "Data: ", "The embedded cluster has stopped."]),
        ("docs/integrations.md", ["55 placed, 1 gated", "JobSet search", "SparkApplication pi", "Running        3"]),
        (
            "docs/jobs.md",
            [
                "job default/training is Completed",
                "quota gate",
                "queue resource quota insufficient: insufficient cpu",
                "job default/wide is Aborted",
                "queue research: CloseQueue requested",
                "customresourcedefinition.apiextensions.k8s.io/queues.scheduling.volcano.sh unchanged",
                "kind: ClusterRole",
            ],
        ),
    ],
)
def test_its_commands_work(page: str, shown: list[str], tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.read(page, with_kubectl=False)
    for text in shown:
        assert text in reader.output


def test_every_page_with_commands_is_read() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [str(each.relative_to(ROOT)) for each in pages if "<!-- run" in each.read_text()]
    assert sorted(found) == sorted(PAGES)
    assert all(blocks(page) for page in PAGES)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *PAGES[1:], "docs/architecture.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_first_plugins_that_a_newcomer_runs_do_not_delay_pods(page: str) -> None:
    folders = re.findall(r"mooring up .*--plugins-dir (\S+)", (ROOT / page).read_text())
    assert folders
    for folder in folders:
        plugins = [each for file in in_folder(ROOT / folder) for each in load_file(file, "check")]
        assert plugins
        assert not any(hasattr(each.cls, "permit") for each in plugins)


def test_pytest_works_after_make_demo(tmp_path: Path) -> None:
    """The environment of `make demo` has all that the settings of pytest in this repository need."""
    pinned = runpy.run_path(str(ROOT / "scripts" / "pinned.py"))
    packages = [re.split(r"[<>=]", each)[0] for each in pinned["group"]("test")]
    assert "pytest" in packages
    (tmp_path / "test_mine.py").write_text("def test_mine() -> None:\n    assert True\n")
    plugins = [part for each in packages if each != "pytest" for part in ("-p", each.removeprefix("pytest-"))]
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *plugins, str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z0-9-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named
    assert named <= targets
