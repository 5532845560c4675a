"""ImageLocality: names, sizes, how far an image is spread, limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import CycleState
from mooring.plugins.image_locality import ImageLocality, normalized_name
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.image_locality import ImageLocalityReference

MIB = 1024 * 1024
NODES = [
    make_node("big").image("web:v1", "web@sha256:1", size=900 * MIB).image("tiny:v1", size=40 * MIB).obj(),
    make_node("both").image("web:v1", size=900 * MIB).image("db:latest", size=500 * MIB).obj(),
    make_node("none").obj(),
    make_node("empty").obj(),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", "web:latest"),
        ("web:v1", "web:v1"),
        ("registry.example:5000/web", "registry.example:5000/web:latest"),
        ("registry.example:5000/web:v1", "registry.example:5000/web:v1"),
        ("web@sha256:1", "web@sha256:1"),
        ("", ":latest"),
    ],
)
def test_names_get_a_tag(name: str, expected: str) -> None:
    """A colon after the last slash is a tag (or a digest)."""
    assert normalized_name(name) == expected


# 900 MiB on half of the nodes counts as 450 MiB, 500 MiB on a quarter as 125 MiB, 40 MiB on a quarter as 10 MiB.
CASES = {
    "one image": (make_pod("p").container("web:v1"), {"big": 43, "both": 43, "none": 0, "empty": 0}),
    "by digest": (make_pod("p").container("web@sha256:1"), {"big": 20, "both": 0, "none": 0, "empty": 0}),
    "no tag means latest": (make_pod("p").container("db"), {"big": 0, "both": 10, "none": 0, "empty": 0}),
    "two containers": (
        make_pod("p").container("web:v1").container("db"),
        {"big": 21, "both": 27, "none": 0, "empty": 0},
    ),
    "an image twice counts twice": (
        make_pod("p").container("web:v1").container("web:v1"),
        {"big": 44, "both": 44, "none": 0, "empty": 0},
    ),
    "init containers count": (
        make_pod("p").init(image="web:v1").container("x"),
        {"big": 21, "both": 21, "none": 0, "empty": 0},
    ),
    "image volumes count as containers do": (
        make_pod("p").container("x").image_volume("web:v1"),
        {"big": 21, "both": 21, "none": 0, "empty": 0},
    ),
    "too small to matter": (make_pod("p").container("tiny:v1"), {"big": 0, "both": 0, "none": 0, "empty": 0}),
    "nobody has it": (make_pod("p").container("unheard/of"), {"big": 0, "both": 0, "none": 0, "empty": 0}),
    "no containers at all": (make_pod("p"), {"big": 0, "both": 0, "none": 0, "empty": 0}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_score(case: str, form: Any) -> None:
    """Four nodes."""
    pod, expected = CASES[case]
    assert run_plugin(ImageLocality, pod.obj(), nodes=NODES, form=form).scores == expected


@pytest.mark.parametrize("form", FORMS)
def test_more_than_enough_is_100(form: Any) -> None:
    """1000 MiB a container is the most that counts."""
    node = make_node("n").image("huge:v1", size=9000 * MIB).obj()
    assert run_plugin(ImageLocality, make_pod("p").container("huge:v1").obj(), nodes=[node], form=form).scores == {
        "n": 100
    }


def test_uniform_scores_are_one_number() -> None:
    """An image that is nowhere, or everywhere, needs no column."""
    harness = PluginHarness(
        ImageLocality, nodes=[make_node(name).image("web:v1", size=900 * MIB).obj() for name in "ab"]
    )
    for image, expected in (("x", 0), ("web:v1", 89)):
        pod = make_pod("p").container(image).obj()
        assert harness.plugin.score_nodes(CycleState(), pod, harness.nodes()) == expected


def test_what_is_kept_is_not_handed_out() -> None:
    """A caller may write into the scores it got."""
    harness = PluginHarness(ImageLocality, nodes=NODES)
    pod = make_pod("p").container("web:v1").obj()
    harness.plugin.score_nodes(CycleState(), pod, harness.nodes())[:] = 7
    assert harness.plugin.score_nodes(CycleState(), pod, harness.nodes()).tolist() == [43, 43, 0, 0]


SIZES = {f"i{number}:v1": size * MIB for number, size in enumerate([10, 60, 300, 700, 5000])}
IMAGES = st.sampled_from(list(SIZES))
NAMES = st.sampled_from([f"n{number}" for number in range(5)])


@st.composite
def stocked(draw: st.DrawFn) -> Node:
    node = make_node(draw(NAMES))
    for name in draw(st.sets(IMAGES, max_size=4)):
        node = node.image(name, f"{name}-again", size=SIZES[name])
    return node.obj()


@st.composite
def hungry(draw: st.DrawFn) -> Pod:
    pod = make_pod("p")
    for name in draw(st.lists(IMAGES | st.just("x"), max_size=3)):
        pod = pod.container(name)
    for name in draw(st.lists(IMAGES, max_size=1)):
        pod = pod.init(image=name).image_volume(name)
    return pod.obj()


@settings(max_examples=80, deadline=None)
@given(happened=events(stocked(), hungry()), pod=hungry(), seed=st.integers(0, 99))
def test_agrees_with_the_reference(happened: Any, pod: Pod, seed: int) -> None:
    """The index of images says what the nodes say, as they come, change and go."""
    play(Agreement(ImageLocality, ImageLocalityReference), happened, pod, seed)
