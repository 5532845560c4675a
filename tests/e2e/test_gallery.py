"""Every plugin of the gallery with its own configuration, on an embedded and on a real cluster: pods go where it says.

The clusters are made so that the pod would go elsewhere, or might, if the plugin said nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.docs.commands import ROOT
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object
from tests.e2e.embedded.process import EmbeddedProcess
from tests.e2e.grounds import GALLERY, Ground

GIB = 1024**3
#: Tested with PodGroups, on a server of 1.37: tests/e2e/test_pod_groups.py.
ELSEWHERE = ("cheapest_rack",)


@pytest.fixture(params=["embedded", "real"])
def ground(request: pytest.FixtureRequest, built: None, tmp_path: Path) -> Iterator[Ground]:
    if request.param == "embedded":
        with EmbeddedProcess() as embedded:
            yield from _opened(Ground(request.param, embedded.kubeconfig, "default", tmp_path))
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        yield from _opened(Ground(request.param, cluster.plane.kubeconfig(), cluster.namespace, tmp_path))


def _opened(ground: Ground) -> Iterator[Ground]:
    yield ground
    ground.api.close()


def test_node_number(ground: Ground) -> None:
    for digit in "123":
        ground.add_node(f"node-{digit}")
    with ground.gallery("nodenumber", "NodeNumber"):
        ground.add_pod("web-2", "number-scheduler")
        assert ground.node_of("web-2") == "node-2"


def test_patient_node_number(ground: Ground) -> None:
    for digit in "123":
        ground.add_node(f"node-{digit}")
    with ground.gallery("patient_nodenumber", "PatientNodeNumber"):
        ground.add_pod("web-3", "patient-scheduler")
        assert ground.node_of("web-3") == "node-3"
    assert _seconds_to_bind(ground.pod("web-3")) >= 2  # three, in times that are cut to whole seconds


def _seconds_to_bind(pod: Object) -> float:
    bound = next(each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    times = (bound["lastTransitionTime"], pod["metadata"]["creationTimestamp"])
    later, earlier = (datetime.fromisoformat(each) for each in times)
    return (later - earlier).total_seconds()


def test_block_all(ground: Ground) -> None:
    ground.add_node("node-1")
    with ground.gallery("block_all", "BlockAllScheduler"):
        ground.add_pod("web", "block-all")
        assert f"pod {ground.namespace}/web is blocked by BlockAllScheduler" in ground.why_waiting("web")
        ground.await_log("BlockAllScheduler is in effect")


def test_approval(ground: Ground) -> None:
    ground.add_node("node-1")
    with ground.gallery("approval", "Approval"):
        ground.add_pod("web", "approval")
        ground.add_pod("approved", "approval", annotations={"example.com/approved": "alice"})
        assert ground.node_of("approved") == "node-1"
        assert not ground.pod("web")["spec"].get("nodeName")
        approval = {"metadata": {"annotations": {"example.com/approved": "alice"}}}
        ground.api.patch(f"/api/v1/namespaces/{ground.namespace}/pods/web", approval)
        assert ground.node_of("web") == "node-1"


def test_name_score(ground: Ground) -> None:
    for name in ("k8s-master01", "k8s-node01", "k8s-node02"):
        ground.add_node(name)
    ground.add_pod("there", node="k8s-node02", requests={"cpu": "3"})
    with ground.gallery("namescore", "NameScore"):
        ground.add_pod("test-scheduler", "namescore-scheduler")
        assert ground.node_of("test-scheduler") == "k8s-node02"


def test_node_crd_resource_fit(ground: Ground) -> None:
    folder = GALLERY / "node_crd_resource_fit"
    for digit in "0123":
        ground.add_node(f"node-{digit}")
    ground.apply_definitions(folder)
    ground.apply((folder / "resources.yaml").read_text())
    with ground.gallery("node_crd_resource_fit", "NodeCRDResourceFit"):
        ground.apply((folder / "pod.yaml").read_text())
        assert ground.node_of("nginx") == "node-2"


def test_network_metrics(ground: Ground) -> None:
    folder, group = GALLERY / "network_metrics", {"network.example.com/group": "chat"}
    for digit in "012":
        ground.add_node(f"node-{digit}")
    ground.apply_definitions(folder)
    ground.apply((folder / "metrics.yaml").read_text().replace("kube-system", ground.namespace))
    ground.add_pod("server", node="node-0", requests={"cpu": "3"}, labels=group)
    ground.add_pod("noise", node="node-1", requests={"cpu": "1"})

    def change(config: Object) -> None:
        config["profiles"][0]["pluginConfig"][0]["args"]["namespace"] = ground.namespace

    with ground.gallery("network_metrics", "NetworkAware", change=change):
        ground.await_log('"Scheduling"')
        ground.add_pod("client", "network-scheduler", requests={"cpu": "2"}, labels=group)
        assert ground.node_of("client") == "node-1"
        ground.add_pod("large", "network-scheduler", requests={"cpu": "4"}, labels=group)
        assert "1 node(s) were too far from the pods that this pod talks to" in ground.why_waiting("large")


@pytest.fixture
def prometheus() -> Iterator[str]:
    """Says that node-0 is busy and node-1 is not."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cpu = "cpu" in parse_qs(urlsplit(self.path).query)["query"][0]
            used = {"node-0": 3.5, "node-1": 0.1} if cpu else {"node-0": GIB, "node-1": GIB}
            found = [{"metric": {"node": name}, "value": [0, str(amount)]} for name, amount in used.items()]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_load_aware(ground: Ground, prometheus: str) -> None:
    """By metrics.k8s.io where there is one, which is the embedded cluster, and by Prometheus on the other."""
    for name in ("node-0", "node-1"):
        ground.add_node(name)
    # By what pods ask for, node-0 were the better one.
    ground.add_pod("busy", node="node-0", annotations={"mooring.dev/usage": "cpu=3500m,memory=1Gi"})
    ground.add_pod("idle", node="node-1", requests={"cpu": "2"}, annotations={"mooring.dev/usage": "cpu=1m,memory=1Mi"})

    def change(config: Object) -> None:
        if ground.kind == "real":
            config["profiles"][0]["pluginConfig"][0]["args"]["prometheus"] = prometheus

    if ground.kind == "embedded":
        usage = "/apis/metrics.k8s.io/v1beta1/nodes/node-0"
        ground.api.wait_for("usage", lambda: ground.api.get(usage)["usage"]["cpu"] == "3600m")
    with ground.gallery("load_aware", "LoadAware", change=change):
        ground.await_log("measured the load of the nodes")
        ground.add_pod("web", "load-aware-scheduler", requests={"cpu": "100m"})
        assert ground.node_of("web") == "node-1"


def test_learned_score(ground: Ground) -> None:
    """The model has learnt that scarce memory slows pods down more than scarce processors do."""
    for name in ("busy", "crammed"):
        ground.add_node(name, cpu="8", memory="16Gi")
    ground.add_pod("a", node="busy", requests={"cpu": "6500m", "memory": "4Gi"})
    ground.add_pod("b", node="crammed", requests={"cpu": "100m", "memory": "14Gi"})
    with ground.gallery("learned_score", "LearnedScore"):
        ground.add_pod("web", "learned-scheduler", requests={"cpu": "1", "memory": "1Gi"})
        assert ground.node_of("web") == "busy"


def test_two_forms(ground: Ground) -> None:
    """What is scarcest decides, in either form."""
    for name in ("lopsided", "even"):
        ground.add_node(name)
    ground.add_pod("a", node="lopsided", requests={"memory": "7Gi"})
    ground.add_pod("b", node="even", requests={"cpu": "2500m", "memory": "5Gi"})
    with ground.gallery("two_forms", "HeadroomPerNode", "HeadroomInColumns"):
        for scheduler in ("per-node-scheduler", "columns-scheduler"):
            ground.add_pod(f"for-{scheduler}", scheduler, requests={"cpu": "100m", "memory": "100Mi"})
            assert ground.node_of(f"for-{scheduler}") == "even"


def test_cheapest_node(ground: Ground) -> None:
    for name, price in (("spot", "0.5"), ("plain", "1.0"), ("large", "2.5")):
        ground.add_node(name, price=price)
    ground.add_pod("there", node="spot", requests={"cpu": "2"})
    with ground.gallery("cheapest_node", "CheapestNode"):
        ground.add_pod("web", "thrifty", requests={"cpu": "100m"})
        assert ground.node_of("web") == "spot"
        ground.add_pod("big", "thrifty", requests={"cpu": "4"})
        assert ground.node_of("big") == "plain"
        ground.add_pod("bigger", "thrifty", requests={"cpu": "4"})
        assert "1 node(s) were too expensive" in ground.why_waiting("bigger")


def test_headroom_in_webassembly(ground: Ground) -> None:
    ground.add_node("small", cpu="1", memory="64Gi")
    ground.add_node("large", cpu="10", memory="1Gi")
    with ground.scheduler(ROOT / "examples" / "wasm" / "headroom" / "scheduler.yaml"):
        ground.add_pod("web", "default-scheduler", requests={"cpu": "500m", "memory": "900Mi"})
        assert ground.node_of("web") == "large"
        ground.add_pod("large", "default-scheduler", requests={"cpu": "8"})
        assert "not enough CPU headroom" in ground.why_waiting("large")


def _device(name: str, counters: str = "", **attributes: object) -> Object:
    values = {key: {"int" if isinstance(value, int) else "string": value} for key, value in attributes.items()}
    consumed = [{"counterSet": "gpu", "counters": {"slices": {"value": counters}}}]
    return {"name": name, "attributes": values, **({"consumesCounters": consumed} if counters else {})}


@pytest.mark.parametrize(
    ("folder", "plugin", "devices", "count", "expected"),
    [
        (
            "pack_nvlink",
            "PackNvlink",
            [_device(f"gpu-{n}", nvlinkDomain=domain) for n, domain in enumerate((0, 1, 1))],
            2,
            ["gpu-1", "gpu-2"],
        ),
        ("spare_large_gpus", "SpareLargeGpus", [_device("a", gibibytes=80), _device("b", gibibytes=40)], 1, ["b"]),
        ("inference_on_partitions", "InferenceOnPartitions", [_device("a"), _device("b", counters="1")], 1, ["b"]),
    ],
)
def test_plugins_that_choose_devices(
    ground: Ground, folder: str, plugin: str, devices: list[Object], count: int, expected: list[str]
) -> None:
    """Without the plugin, the pod would get the first devices."""
    ground.add_node("node-1")
    shared = any("consumesCounters" in each for each in devices)
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2 if shared else 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool}
    slices: list[Object] = [{"devices": devices}]
    if shared:
        slices.append({"sharedCounters": [{"name": "gpu", "counters": {"slices": {"value": "1"}}}]})
    group = {"apiVersion": "resource.k8s.io/v1"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
    scheduler = yaml.safe_load((GALLERY / folder / "scheduler.yaml").read_text())["profiles"][0]["schedulerName"]
    container = {"name": "main", "image": "example/app:1", "resources": {"claims": [{"name": "gpu"}]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"workload": "inference"}},
        "spec": {
            "schedulerName": scheduler,
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
            "containers": [container],
        },
    }
    objects: list[Object] = [
        {**group, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        *(
            {
                **group,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{folder.replace('_', '-')}-{n}"},
                "spec": {**spec, **each},
            }
            for n, each in enumerate(slices)
        ),
        {**group, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}},
        pod,
    ]
    with ground.gallery(folder, plugin):
        ground.apply(yaml.safe_dump_all(objects))
        assert ground.node_of("p") == "node-1"
        claim = ground.api.get(f"/apis/resource.k8s.io/v1/namespaces/{ground.namespace}/resourceclaims/c")
        assert [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]] == expected
