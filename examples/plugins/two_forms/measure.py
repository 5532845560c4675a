"""Measures decisions per second of both forms: `python examples/plugins/two_forms/measure.py`."""

import sys
import time
from pathlib import Path

from mooring.config import load_config
from mooring.loading import load_plugin, plugin_spec
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod

FILE = Path(__file__).with_name("two_forms.py")
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}
"""


def measured(name, nodes, pods):
    """Return the pods per second that are placed, with all nodes evaluated for each pod."""
    cls = load_plugin(name, FILE)
    config = load_config(CONFIG.format(name=name), source="measure", plugins={name: plugin_spec(cls)})
    engine = Engine(config, plugins={name: cls})
    for number in range(nodes):
        engine.put(make_node(f"node-{number}").capacity(cpu="32", memory="128Gi", pods=110).obj())
    for number in range(pods):
        engine.put(make_pod(f"pod-{number}").req(cpu="250m", memory="512Mi").obj())
    begun = time.perf_counter()
    placed = 0
    while engine.queue.ready:
        placed += isinstance(engine.schedule_one(), AssumedPod)
    assert placed == pods
    return pods / (time.perf_counter() - begun)


def main(sizes=(500, 5000), pods=100):
    print("| nodes | per node | in columns | times |\n|---|---|---|---|")
    for nodes in sizes:
        slow, quick = (measured(name, nodes, pods) for name in ("HeadroomPerNode", "HeadroomInColumns"))
        print(f"| {nodes:,} | {slow:,.0f} | {quick:,.0f} | {quick / slow:.0f} |")


if __name__ == "__main__":
    main(*(tuple(map(int, sys.argv[1:])),) if sys.argv[1:] else ())
