from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.gpu_sharing.annotations import InvalidRequest, NodeGpus, gpu_index, gpu_request, gpus_of
from mooring.plugins.gpu_sharing.devices import GpuRequest
from mooring.testing import make_node, make_pod

COUNT, MILLI = "alibabacloud.com/gpu-count", "alibabacloud.com/gpu-milli"
MODEL, INDEX = "alibabacloud.com/gpu-card-model", "alibabacloud.com/gpu-index"


@pytest.mark.parametrize(
    ("annotations", "requests", "count", "milli"),
    [
        ({}, {}, 0, 0),
        ({MILLI: "500"}, {}, 1, 500),
        ({COUNT: "2"}, {}, 2, 1000),
        ({COUNT: "2", MILLI: "300"}, {}, 2, 300),
        ({COUNT: "0", MILLI: "300"}, {}, 0, 0),
        ({"gpu-fraction": "0.25"}, {}, 1, 250),
        ({"gpu-fraction": "1.0"}, {"nvidia.com/gpu": 4}, 1, 1000),
        ({}, {"nvidia.com/gpu": 4}, 4, 1000),
        ({}, {COUNT: 1, MILLI: 470}, 1, 470),
    ],
)
def test_requests(annotations: dict[str, str], requests: dict[str, int], count: int, milli: int) -> None:
    pod = make_pod("p").annotation(annotations).obj()
    assert gpu_request(pod, {"cpu": 100, **requests}) == GpuRequest(cpu=100, count=count, milli=milli)


def test_the_models_of_a_request() -> None:
    pod = make_pod("p").annotation({MILLI: "500", MODEL: "T4|V100"}).obj()
    assert gpu_request(pod, {}).models == "T4|V100"


@pytest.mark.parametrize(
    ("annotations", "requests"),
    [
        ({MILLI: "1001"}, {}),
        ({MILLI: "-1"}, {}),
        ({MILLI: "half"}, {}),
        ({COUNT: "65"}, {}),
        ({COUNT: "9" * 5000}, {}),
        ({COUNT: "\u0661"}, {}),
        ({"gpu-fraction": "1.5"}, {}),
        ({"gpu-fraction": "nan"}, {}),
        ({}, {"nvidia.com/gpu": 10**12}),
    ],
)
def test_requests_that_cannot_be_read(annotations: dict[str, str], requests: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        gpu_request(make_pod("p").annotation(annotations).obj(), requests)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("0", [0]),
        ("0-3", [0, 3]),
        ("", None),
        ("-1", None),
        ("0-", None),
        ("a", None),
        ("1000", None),
        ("0-" * 100, None),
    ],
)
def test_the_index_annotation(text: str, index: list[int] | None) -> None:
    assert gpu_index(make_pod("p").annotation({INDEX: text}).obj()) == index


@pytest.mark.parametrize(
    ("labels", "amounts", "gpus"),
    [
        ({}, {}, NodeGpus(0, "")),
        ({MODEL: "T4"}, {COUNT: 2}, NodeGpus(2, "T4")),
        ({"nvidia.com/gpu.product": "A10"}, {"nvidia.com/gpu": 4}, NodeGpus(4, "A10")),
        ({"nvidia.com/gpu.count": "4"}, {"nvidia.com/gpu": 40}, NodeGpus(4, "")),
        ({"nvidia.com/gpu.count": "4"}, {}, NodeGpus(0, "")),
        ({"nvidia.com/gpu.count": "many"}, {"nvidia.com/gpu": 10**9}, NodeGpus(64, "")),
    ],
)
def test_the_gpus_of_a_node(labels: dict[str, str], amounts: dict[str, Any], gpus: NodeGpus) -> None:
    assert gpus_of(make_node("n").label(labels).obj(), amounts) == gpus
