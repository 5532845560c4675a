"""The Plugins and Configuration views."""

from __future__ import annotations

from mooring.config import default_config, load_config
from mooring.dashboard.settings_view import configuration_view, plugins_view
from mooring.loading import Catalog
from mooring.loading.plugin_rows import plugin_rows

CHANGED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 20
profiles:
- plugins:
    score:
      disabled: [{name: ImageLocality}]
      enabled: [{name: NodeAffinity, weight: 7}]
"""


def test_the_defaults_differ_in_nothing() -> None:
    found = configuration_view(default_config())
    assert found["differences"] == []
    assert found["configuration"]["profiles"][0]["schedulerName"] == "default-scheduler"
    assert "- schedulerName: default-scheduler\n" in found["text"]


def test_differences_name_the_setting_the_value_and_the_default() -> None:
    found = configuration_view(load_config(CHANGED, source="scheduler.yaml"))
    told = {each["path"]: (each["value"], each["default"]) for each in found["differences"]}
    assert told["podMaxBackoffSeconds"] == ("20", "10")
    assert told["profiles[0].plugins.score[NodeAffinity]"] == (
        '{"name":"NodeAffinity","weight":7}',
        '{"name":"NodeAffinity","weight":2}',
    )
    assert told["profiles[0].plugins.score[ImageLocality]"][0] == "(not set)"


def test_plugins_have_their_source_and_the_reloads() -> None:
    found = plugins_view(plugin_rows(default_config(), Catalog()), None)
    assert {each["source"] for each in found["plugins"]} == {"built in"}
    assert found["reload"] == {"watched": False, "reloads": 0, "failed": 0, "history": []}
