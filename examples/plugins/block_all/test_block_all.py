from pathlib import Path

from mooring.loading import load_plugin
from mooring.testing import make_node, make_pod, run_plugin

BlockAllScheduler = load_plugin("BlockAllScheduler", Path(__file__).with_name("block_all.py"))


def test_every_pod_is_blocked():
    result = run_plugin(BlockAllScheduler, make_pod("web").obj(), nodes=[make_node("n").obj()], args={"any": "thing"})
    assert not result.pre_filter.is_success
    assert result.pre_filter.message == "pod default/web is blocked by BlockAllScheduler"
