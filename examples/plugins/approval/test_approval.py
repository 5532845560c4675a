from pathlib import Path

import msgspec
import pytest

from mooring.config import load_config
from mooring.loading import load_plugin, plugin_spec
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.testing import PluginHarness, make_node, make_pod

Approval = load_plugin("Approval", Path(__file__).with_name("approval.py"))
WAITS = "the pod waits for approval: kubectl annotate pod web --namespace {} {}=NAME"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Approval}]}}
"""


@pytest.mark.parametrize(
    ("args", "namespace", "annotations", "answer"),
    [
        (None, "default", {}, WAITS.format("default", "example.com/approved")),
        (None, "default", {"example.com/approved": ""}, WAITS.format("default", "example.com/approved")),
        (None, "default", {"example.com/approved": "alice"}, None),
        (
            {"annotation": "acme.io/ok"},
            "default",
            {"example.com/approved": "alice"},
            WAITS.format("default", "acme.io/ok"),
        ),
        ({"namespaces": ["production"]}, "default", {}, None),
        ({"namespaces": ["production"]}, "production", {}, WAITS.format("production", "example.com/approved")),
    ],
)
def test_which_pods_wait(args, namespace, annotations, answer):
    pod = make_pod("web", namespace).annotation(annotations).obj()
    assert PluginHarness(Approval, args=args).plugin.pre_enqueue(pod) == answer


def test_the_annotation_releases_the_pod_and_nothing_else_does():
    engine = Engine(
        load_config(CONFIG, source="test", plugins={"Approval": plugin_spec(Approval)}), plugins={"Approval": Approval}
    )
    engine.put(make_node("node-1").capacity(cpu="4", memory="8Gi", pods=10).obj())
    pods = [make_pod(name).uid(name).obj() for name in ("web", "other")]
    for pod in pods:
        engine.put(pod)
    assert not engine.queue.ready

    def changed(pod, version, **metadata):
        return msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=version, **metadata)
        )

    engine.put(make_node("node-2").capacity(cpu="4", memory="8Gi", pods=10).obj())
    engine.put(changed(pods[0], "2", annotations={"another": "annotation"}))
    assert not engine.queue.ready
    engine.put(changed(pods[0], "3", annotations={"example.com/approved": "alice"}))
    outcome = engine.schedule_one()
    assert isinstance(outcome, AssumedPod)
    assert outcome.queued.pod.name == "web"
    assert not engine.queue.ready, "the other pod still waits"
