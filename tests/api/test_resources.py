"""What a pod counts with: containers, init containers, sidecars, pod-level requests, overhead, resizing."""

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError
from mooring.api.resources import (
    RequestRules,
    amounts,
    container_host_ports,
    is_attachable,
    is_extended,
    is_hugepages,
    is_native,
    is_pod_level,
    is_resize_infeasible,
    is_scalar,
    is_tracked,
    pod_requests,
    pod_requests_for_score,
    pod_requests_nonzero,
)

MI = 2**20
DEFAULT_MEMORY = 200 * MI


def container(name="c", *, sidecar=False, ports=(), **requests):
    made = {"name": name, "resources": {"requests": {key.replace("_", "-"): each for key, each in requests.items()}}}
    return made | ({"restartPolicy": "Always"} if sidecar else {}) | ({"ports": list(ports)} if ports else {})


def pod(*containers, init=(), status=None, **spec):
    made = {"containers": list(containers), "initContainers": list(init), **spec}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": made, "status": status or {}}, Pod)


def given_status(name="c", *, given=None, allocated=None):
    return {"name": name, "resources": {"requests": given or {}}, "allocatedResources": allocated or {}}


def resize(reason):
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        pytest.param(pod(), {}, id="no containers"),
        pytest.param(pod(container()), {}, id="asks for nothing"),
        pytest.param(pod(container(cpu="100m", memory="1Gi")), {"cpu": 100, "memory": 2**30}, id="one container"),
        pytest.param(pod(container(cpu=0)), {"cpu": 0}, id="an explicit zero is kept"),
        pytest.param(pod(container(cpu="1"), container(cpu="500m", memory="1")), {"cpu": 1500, "memory": 1}, id="sum"),
        pytest.param(pod(container(cpu="400u"), container(cpu="400u")), {"cpu": 1}, id="rounded once, at the end"),
        pytest.param(
            pod(container(cpu="1"), init=[container(cpu="3", memory="5")]), {"cpu": 3000, "memory": 5},
            id="init peak",
        ),
        pytest.param(
            pod(container(cpu="2"), init=[container(cpu="1"), container(cpu="1")]), {"cpu": 2000},
            id="init containers run one after the other",
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container(sidecar=True, cpu="1")]), {"cpu": 2000}, id="sidecars are added"
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container(sidecar=True, cpu="1"), container(cpu="5")]), {"cpu": 6000},
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container(cpu="5"), container(sidecar=True, cpu="1")]), {"cpu": 5000},
            id="but not beside earlier ones",
        ),
        pytest.param(
            pod(init=[container(sidecar=True, cpu="1"), container(sidecar=True, cpu="2"), container(cpu="1")]),
            {"cpu": 4000},
            id="sidecars add up",
        ),
        pytest.param(
            pod(container(cpu="1"), overhead={"cpu": "10m", "memory": "1Mi"}), {"cpu": 1010, "memory": MI},
            id="overhead",
        ),
        pytest.param(
            pod(container(cpu="1", memory="7", ephemeral_storage="3"), resources={"requests": {"cpu": "5"}}),
            {"cpu": 5000, "memory": 7, "ephemeral-storage": 3},
            id="a pod-level request replaces the sum, resource by resource",
        ),
        pytest.param(
            pod(container(cpu="1"), resources={"requests": {"cpu": "5"}}, overhead={"cpu": "1"}), {"cpu": 6000},
            id="overhead comes on top of it",
        ),
        pytest.param(
            pod(container(), resources={"requests": {"ephemeral-storage": "5", "hugepages-2Mi": "4Mi"}}),
            {"hugepages-2Mi": 4 * MI},
            id="only some resources can be asked for at pod level",
        ),
        pytest.param(pod(container(), resources={"limits": {"cpu": "5"}}), {}, id="limits never count"),
    ],
)  # fmt: skip
def test_requests(subject, wanted):
    assert pod_requests(subject) == wanted
    assert subject.requests == wanted


def test_pod_level_requests_can_be_left_out():
    subject = pod(container(cpu="1"), resources={"requests": {"cpu": "5"}})
    assert pod_requests(subject, rules=RequestRules(pod_level=False)) == {"cpu": 1000}


def test_requests_are_computed_once():
    subject = pod(container(cpu="1"))
    assert subject.requests is subject.requests


def test_a_bad_quantity_is_named():
    with pytest.raises(QuantityError, match="'lots' is not a quantity"):
        pod_requests(pod(container(cpu="lots")))


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        pytest.param({}, 1000, id="nothing known"),
        pytest.param({"containerStatuses": [given_status(given={"cpu": "2"})]}, 2000, id="has more than it asks for"),
        pytest.param({"containerStatuses": [given_status(given={"cpu": "500m"})]}, 1000, id="has less"),
        pytest.param({"containerStatuses": [given_status(allocated={"cpu": "3"})]}, 3000, id="was promised more"),
        pytest.param(
            {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}, 1000,
            id="a promise alone does not count",
        ),
        pytest.param(
            {"containerStatuses": [given_status(given={"cpu": "500m"})], "conditions": resize("Infeasible")}, 500,
            id="a refused wish does not count",
        ),
        pytest.param(
            {"containerStatuses": [given_status(given={"cpu": "500m"})], "conditions": resize("Deferred")}, 1000,
            id="a deferred wish counts",
        ),
        pytest.param({"containerStatuses": [given_status("other", given={"cpu": "9"})]}, 1000, id="someone else's"),
    ],
)  # fmt: skip
def test_status_counts_for_pods_on_a_node(status, wanted):
    subject = pod(container(cpu="1"), status=status)
    assert pod_requests(subject, use_status=True) == {"cpu": wanted}
    assert pod_requests(subject) == {"cpu": 1000}


def test_status_counts_for_sidecars_but_not_for_other_init_containers():
    status = {"initContainerStatuses": [given_status("s", given={"cpu": "2"}), given_status("i", given={"cpu": "9"})]}
    subject = pod(container(), init=[container("s", sidecar=True, cpu="1"), container("i", cpu="1")], status=status)
    assert pod_requests(subject, use_status=True) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, 4000),
        ({"resources": {"requests": {"cpu": "6"}}}, 6000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "5"}}, 5000),
        ({"allocatedResources": {"cpu": "5"}}, 4000),
        ({"resources": {"requests": {"cpu": "1"}}, "conditions": resize("Infeasible")}, 1000),
        ({"resources": {"requests": {}}, "conditions": resize("Infeasible")}, 0),
    ],
)
def test_status_counts_at_pod_level_too(status, wanted):
    subject = pod(container(), resources={"requests": {"cpu": "4"}}, status=status)
    assert pod_requests(subject, use_status=True) == {"cpu": wanted}


@pytest.mark.parametrize(
    ("subject", "charged", "scored"),
    [
        pytest.param(pod(container()), (100, DEFAULT_MEMORY), None, id="asks for nothing"),
        pytest.param(pod(container(cpu="0", memory="0")), (0, 0), None, id="asks for zero"),
        pytest.param(
            pod(container(cpu="1"), container(memory="1")), (1100, DEFAULT_MEMORY + 1), None,
            id="each container by itself",
        ),
        pytest.param(
            pod(container(cpu="1", memory="1"), init=[container()]), (1000, DEFAULT_MEMORY), None, id="init too"
        ),
        pytest.param(
            pod(container(), container(), resources={"requests": {"cpu": "1"}}), (1000, 2 * DEFAULT_MEMORY), None,
            id="pod level: what nobody asks for",
        ),
        pytest.param(
            pod(container(memory="1"), container(), resources={"requests": {"cpu": "1"}}),
            (1000, 1),
            (1000, DEFAULT_MEMORY + 1),
            id="pod level: what one container asks for",
        ),
    ],
)  # fmt: skip
def test_nonzero_requests(subject, charged, scored):
    for count, wanted in ((pod_requests_nonzero, charged), (pod_requests_for_score, scored or charged)):
        answer = count(subject)
        assert (answer["cpu"], answer["memory"]) == wanted


def test_resize_conditions():
    deferred, refused = (pod(status={"conditions": resize(reason)}) for reason in ("Deferred", "Infeasible"))
    assert [is_resize_infeasible(each) for each in (deferred, refused, pod())] == [False, True, False]


def test_host_ports_of_containers_and_sidecars():
    subject = pod(
        container(ports=[{"hostPort": 80}, {"containerPort": 1}]),
        init=[
            container(ports=[{"hostPort": 81}]),
            container(sidecar=True, ports=[{"hostPort": 82, "hostIP": "10.0.0.1", "protocol": "UDP"}]),
        ],
    )
    assert [port.host_key for port in container_host_ports(subject)] == [
        ("10.0.0.1", "UDP", 82),
        ("0.0.0.0", "TCP", 80),
    ]


@pytest.mark.parametrize(
    ("name", "extended", "scalar", "tracked", "pod_level", "native"),
    [
        ("cpu", False, False, True, True, True),
        ("memory", False, False, True, True, True),
        ("ephemeral-storage", False, False, True, False, True),
        ("pods", False, False, False, False, True),
        ("storage", False, False, False, False, True),
        ("hugepages-2Mi", False, True, True, True, True),
        ("attachable-volumes-aws-ebs", False, True, True, False, True),
        ("kubernetes.io/batch-cpu", False, True, True, False, True),
        ("x.kubernetes.io/y", False, True, True, False, True),
        ("nvidia.com/gpu", True, True, True, False, False),
        ("requests.nvidia.com/gpu", False, False, False, False, False),
        ("NVIDIA.com/gpu", False, False, False, False, False),
        ("a/b/c", False, False, False, False, False),
    ],
)
def test_resource_names(name, extended, scalar, tracked, pod_level, native):
    assert (is_extended(name), is_scalar(name), is_tracked(name)) == (extended, scalar, tracked)
    assert (is_pod_level(name), is_native(name)) == (pod_level, native)


def test_kinds_of_resource_names():
    assert is_hugepages("hugepages-1Gi")
    assert not is_hugepages("memory")
    assert is_attachable("attachable-volumes-csi-x")
    assert not is_attachable("cpu")


def test_amounts_of_a_node():
    wanted = {"cpu": 3500, "memory": 1024, "pods": 110, "nvidia.com/gpu": 8}
    assert amounts({"cpu": "3.5", "memory": "1Ki", "pods": 110, "nvidia.com/gpu": "8"}) == wanted


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        ({}, {}, {"cpu": 3100, "memory": 120}),
        ({"resources": {"requests": {"cpu": "4"}}}, {}, {"cpu": 4000, "memory": 120}),
        ({"overhead": {"cpu": "1"}}, {}, {"cpu": 4100, "memory": 120}),
        # The allocated resources of a container are without its devices, its actual ones are with them.
        ({}, {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}]}, {"cpu": 4000, "memory": 120}),
        (
            {},
            {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]},
            {"cpu": 5000, "memory": 120},
        ),
    ],
)
def test_devices_take_resources_of_the_node(spec, status, wanted):
    claims = [
        {"resourceClaimName": "a", "mapping": [{"name": "cpu", "quantity": "3"}, {"name": "memory"}]},
        {
            "resourceClaimName": "b",
            "containers": ["c", "d"],
            "overhead": [{"name": "memory", "perPod": "100", "perContainer": "10"}],
        },
    ]
    status = {**status, "nodeAllocatableResourceClaimStatuses": claims}
    made = {"metadata": {}, "spec": {"containers": [container(cpu="100m")], **spec}, "status": status}
    subject = msgspec.convert(made, Pod)
    assert pod_requests(subject, use_status=True, rules=RequestRules(sums=True, claims=True)) == wanted
    assert pod_requests(subject).get("memory") is None
