"""`python -m bench.what_if`: which of 5,000 nodes are feasible for a pod, next to kube-scheduler's framework in Go.

The Go program (main.go) runs PreFilter and Filter on every node, as cluster-autoscaler does. It is built with the
modules of the control plane (`make controlplane`). Both answer with the number of feasible nodes; the answers must be
equal. DynamicResources is disabled in Go, because it needs an API server.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from mooring.api.meta import KubeObject
from mooring.config import default_config
from mooring.loading import Catalog, Setup
from mooring.simulation.snapshot import Snapshot
from mooring.testing import make_node, make_pod
from tests.e2e.controlplane.parts import cache_folder

_SIZES = 32


def in_go(nodes: int, questions: int, *, distinct: bool) -> tuple[float, list[int]]:
    """Return the questions per second and the first answers of the Go program."""
    modules = cache_folder() / "src" / "kubernetes"
    with tempfile.TemporaryDirectory() as folder:
        for file in (modules / "go.mod", modules / "go.sum", Path(__file__).parent / "main.go"):
            shutil.copy(file, folder)
        subprocess.run(["go", "build", "-o", "ask", "."], cwd=folder, check=True)
        command = [str(Path(folder, "ask")), str(nodes), str(questions), *(["distinct"] if distinct else [])]
        speed, answers = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[:2]
    return float(speed.split()[0]), json.loads(answers.replace(" ", ","))


def in_python(nodes: int, questions: int, *, distinct: bool) -> tuple[float, list[int]]:
    """Return the questions per second and the first answers of a snapshot."""
    objects: list[KubeObject] = []
    for number in range(nodes):
        node = make_node(f"node-{number}").zone(f"zone-{number % 3}")
        objects.append(node.capacity({"cpu": 32, "memory": "128Gi", "pods": 110}).obj())
        cpu = f"{500 + 100 * (number % 20)}m"
        objects += [
            make_pod(f"web-{number}-{each}").req(cpu=cpu, memory="1Gi").node(f"node-{number}").obj()
            for each in range(10)
        ]
    snapshot = Snapshot(objects, Setup(default_config(), Catalog()))
    answers = []
    started = time.perf_counter()
    for number in range(questions):
        cpu = f"{1000 + 7 * number}m" if distinct else str(1 + number % _SIZES)
        pod = make_pod(f"ask-{number}").req(cpu=cpu, memory="1Gi").obj()
        answers.append(snapshot.feasible(pod).feasible)
    return questions / (time.perf_counter() - started), answers[:_SIZES]


def main() -> None:
    """Measure, compare the answers, and print both speeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--distinct", action="store_true", help="Ask for pods that all differ, instead of 32 sizes.")
    given = parser.parse_args()
    theirs, expected = in_go(given.nodes, 10 * _SIZES, distinct=given.distinct)
    ours, answers = in_python(given.nodes, 100 * _SIZES, distinct=given.distinct)
    print(f"kube-scheduler's framework in Go: {theirs:,.0f} questions/s")
    print(f"Mooring's snapshot:               {ours:,.0f} questions/s ({ours / theirs:.0f} times)")
    print("the answers are equal" if answers == expected else f"the answers differ: {expected} and {answers}")


if __name__ == "__main__":
    main()
