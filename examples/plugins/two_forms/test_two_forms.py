import random
from pathlib import Path

import pytest

from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod

FILE = Path(__file__).with_name("two_forms.py")
FORMS = [load_plugin(name, FILE) for name in ("HeadroomPerNode", "HeadroomInColumns")]


@pytest.mark.parametrize("plugin", FORMS, ids=lambda plugin: plugin.name)
def test_the_scarcest_resource_decides(plugin):
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi").obj() for name in ("empty", "busy", "full")]
    pods = [
        make_pod("a").node("busy").req(cpu="1", memory="5Gi").obj(),
        make_pod("b").node("full").req(cpu="4").obj(),
    ]
    harness = PluginHarness(plugin, nodes=nodes, pods=pods)
    assert harness.run(make_pod("p").req(cpu="1").obj()).scores == {"empty": 75, "busy": 37, "full": 0}


def test_both_forms_agree():
    rng = random.Random(5)
    for _ in range(50):
        nodes = [
            make_node(f"n{number}").capacity(cpu=rng.randint(0, 64), memory=f"{rng.randint(0, 256)}Gi").obj()
            for number in range(8)
        ]
        pods = [
            make_pod(f"p{number}").node(f"n{rng.randrange(8)}").req(cpu=f"{rng.randint(0, 9000)}m", memory="3Gi").obj()
            for number in range(20)
        ]
        new = make_pod("new").req(cpu=f"{rng.randint(0, 4000)}m", memory=f"{rng.randint(0, 4000)}Mi").obj()
        slow, quick = (PluginHarness(form, nodes=nodes, pods=pods).run(new).scores for form in FORMS)
        assert slow == quick
