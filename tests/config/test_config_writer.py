"""What is written out can be read again and means the same."""

from __future__ import annotations

import pytest

from mooring.api.yaml_writer import yaml_text
from mooring.config import effective, load_config, written
from mooring.config.schema import VERSIONS
from tests.config.golden_compare import cases
from tests.config.helpers import STUBS, load

#: What kube-scheduler writes for v1beta2 lacks what was disabled, so that reading it again means something else.
ACCEPTED = [case for case, expected in cases() if expected["ok"] and not case["id"].startswith("v1beta2/")]


@pytest.mark.parametrize("chunk", range(4))
def test_written_files_mean_the_same(chunk: int) -> None:
    for case in ACCEPTED[chunk::8]:
        config = load_config(case["config"], source="f", plugins=STUBS)
        if any(each.ignored_by_scheduler for one in config.extenders for each in one.managed_resources):
            continue
        again = load_config(yaml_text(written(config)), source="g", plugins=STUBS)
        for one, other in zip(config.profiles, again.profiles, strict=True):
            assert one.plugins == other.plugins, case["id"]
        assert written(again) == written(config), case["id"]


@pytest.mark.parametrize("version", VERSIONS)
def test_written_defaults(version: str) -> None:
    result = written(load(version=version))
    assert (result["apiVersion"], result["kind"]) == (
        f"kubescheduler.config.k8s.io/{version}",
        "KubeSchedulerConfiguration",
    )
    (profile,) = result["profiles"]
    names = [entry["name"] for entry in profile["pluginConfig"]]
    assert names == sorted(names)
    assert all(entry["args"]["kind"] == f"{entry['name']}Args" for entry in profile["pluginConfig"])


def test_arguments_of_plugins_that_are_off_are_not_written() -> None:
    config = load("profiles: [{pluginConfig: [{name: ScoreByName, args: {a: 1}}]}]")
    assert "ScoreByName" in effective(config)["profiles"][0]["pluginConfig"]
    assert "ScoreByName" not in [entry["name"] for entry in written(config)["profiles"][0]["pluginConfig"]]


def test_extenders_are_written_as_given() -> None:
    body = "extenders: [{urlPrefix: a, ignorable: true, tlsConfig: {insecure: true}}, {urlPrefix: b, weight: 2}]"
    assert written(load(body))["extenders"] == [
        {"urlPrefix": "a", "httpTimeout": "5s", "ignorable": True, "tlsConfig": {"insecure": True}},
        {"urlPrefix": "b", "weight": 2, "httpTimeout": "5s"},
    ]
