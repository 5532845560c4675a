"""`/plugins` and `mooring explain` of a running scheduler show where a plugin failed."""

from __future__ import annotations

from pathlib import Path

from mooring.testing import PluginCluster, make_pod

RAISES = """\
from mooring.framework import Plugin


class Raises(Plugin):
    def score(self, state, pod, node):
        return self.price(node)

    def price(self, node):
        return {}["missing"]
"""


def test_where_a_plugin_failed(tmp_path: Path) -> None:
    file = tmp_path / "raises.py"
    file.write_text(RAISES)
    place = "raises.py:9 in price: KeyError: 'missing'"
    with PluginCluster(nodes=2) as cluster:
        cluster.start(plugin_files={"Raises": file})
        cluster.add(make_pod("web").obj())
        assert cluster.why("web") == f'running Score plugin "Raises": {place}'
        explained = cluster.explain("web")
        assert explained is not None
        assert explained.decision is not None
        assert place in explained.decision.message
        (row,) = [row for row in cluster.plugins() if row.name == "Raises"]
    assert row.last_failure == place
    assert row.state == f"failing: {place}"
    assert row.failures >= 1
    assert row.traceback.splitlines() == [
        f'  File "{file}", line 6, in score',
        "    return self.price(node)",
        f'  File "{file}", line 9, in price',
        '    return {}["missing"]',
    ]


def test_built_in_plugins_have_calls_and_a_mean_time() -> None:
    with PluginCluster(nodes=2) as cluster:
        cluster.start()
        cluster.add(make_pod("web").obj())
        assert cluster.node_of("web")
        rows = {row.name: row for row in cluster.plugins()}
    fit = rows["NodeResourcesFit"]
    assert fit.source == "built in"
    assert fit.calls > 0
    assert fit.mean_micros is not None
    assert fit.mean_micros > 0
    assert rows["DefaultPreemption"].mean_micros is None  # it has not been called
