"""Random nodes and pods as far as amounts of resources go."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.testing import make_node, make_pod

GPU, FPGA = "example.com/gpu", "other.io/fpga"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, FPGA, "hugepages-2Mi")
NAMES = tuple(f"n{number}" for number in range(9))

#: Few values, so that nodes fill up, and some beyond what floats hold exactly.
CPU = st.sampled_from(["0", "1m", "100m", "333m", "1", "1500m", "2", "7", "0.0001"])
BYTES = st.sampled_from(["0", "1", "200Mi", "1Gi", "1.5Gi", "3000000001", "7G", "16Gi", "90Ti", "80Pi"])
WHOLE = st.sampled_from(["0", "1", "2", "3"])
HUGE_PAGES = st.sampled_from(["0", "2Mi", "8Mi"])


def amounts_of(resource: str) -> st.SearchStrategy[str]:
    if resource == "cpu":
        return CPU
    if resource in ("memory", "ephemeral-storage"):
        return BYTES
    return HUGE_PAGES if resource.startswith("hugepages") else WHOLE


@st.composite
def some_amounts(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.sets(st.sampled_from(RESOURCES), max_size=4))
    return {name: draw(amounts_of(name)) for name in RESOURCES if name in chosen}


@st.composite
def nodes(draw: st.DrawFn, sized: bool = False) -> Node:
    amounts: dict[str, Any] = {"pods": draw(st.sampled_from([0, 1, 2, 5, 110]))} if not sized else {"pods": 110}
    for resource in RESOURCES:
        if (sized and resource in ("cpu", "memory")) or draw(st.booleans()):
            amount = draw(amounts_of(resource) | st.just("7E"))
            amounts[resource] = "8" if sized and amount == "0" else amount
    return make_node(draw(st.sampled_from(NAMES))).allocatable(amounts).obj()


@st.composite
def pods(draw: st.DrawFn, placed: bool = True) -> Pod:
    made = make_pod(f"p{draw(st.integers(0, 14))}" if placed else "new")
    for amounts in draw(st.lists(some_amounts(), max_size=2)):
        made = made.req(amounts)
    if draw(st.integers(0, 4)) == 0:
        made = made.init(draw(some_amounts()), sidecar=draw(st.booleans()))
    if draw(st.integers(0, 4)) == 0:
        made = made.pod_req({"cpu": draw(CPU), "memory": draw(BYTES)})
    if draw(st.integers(0, 4)) == 0:
        made = made.overhead({"cpu": draw(CPU)})
    if draw(st.integers(0, 4)) == 0:
        made = made.given("c1", allocated=draw(some_amounts()), actual=draw(some_amounts()))
    return made.node(draw(st.sampled_from(NAMES))).obj() if placed else made.obj()


SHAPES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda point: point[0]
).map(sorted)


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
    chosen = draw(st.lists(st.sampled_from((*RESOURCES, "pods", "unheard-of")), min_size=1, max_size=4, unique=True))
    made: dict[str, Any] = {
        "type": kind,
        "resources": [{"name": name, "weight": draw(st.sampled_from([1, 1, 2, 3, 100]))} for name in chosen],
    }
    if kind == "RequestedToCapacityRatio":
        points = [{"utilization": u, "score": s} for u, s in draw(SHAPES)]
        made["requestedToCapacityRatio"] = {"shape": points}
    return made
