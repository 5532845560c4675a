"""Results as records that data frames accept, and a summary in HTML in which nothing of the input is markup."""

from __future__ import annotations

import math
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

import mooring
from mooring.framework import Plugin
from mooring.simulation.result import SimulationResult
from tests.simulation.manifests import node, pod, workload
from tests.simulation.test_sessions import gang, queue

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
ZONE = {"topology.kubernetes.io/zone": "z1"}
LISTS: dict[str, Callable[[SimulationResult], list[dict[str, Any]]]] = {
    "placements": lambda result: result.placements,
    "utilization": lambda result: result.utilization,
    "reasons": lambda result: result.reasons,
    "gangs": lambda result: result.gangs,
    "queues": lambda result: result.queues,
}


@pytest.fixture(scope="module")
def result() -> SimulationResult:
    return mooring.simulate(
        [
            node("a", cpu="4", labels=ZONE),
            node("b", cpu="2"),
            HIGH,
            pod("old", cpu="3", nodeName="a"),
            pod("urgent", cpu="4", priorityClassName="high"),
            workload("Deployment", "web", template={"containers": [{"name": "c", "image": "i"}]}, replicas=2),
            pod("big", cpu="64"),
            pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
            queue("small", capability={"cpu": "1"}),
            *gang("fits", 1, queue="small", minResources={"cpu": "1"}),
            *gang("waits", 3, queue="small", minResources={"cpu": "3"}),
        ]
    )


@pytest.mark.parametrize("name", LISTS)
def test_every_column_has_one_type_without_missing_values(result: SimulationResult, name: str) -> None:
    """Data frames derive the type of a column from its first rows."""
    records = LISTS[name](result)
    assert records
    assert {tuple(each) for each in records} == {tuple(records[0])}
    for column in records[0]:
        types = {type(each[column]) for each in records}
        assert len(types) == 1, column
        assert types <= {str, int, float}, column


@pytest.mark.parametrize("name", LISTS)
def test_pandas_accepts_the_records(result: SimulationResult, name: str) -> None:
    records = LISTS[name](result)
    frame = pytest.importorskip("pandas").DataFrame(records)
    assert list(frame.columns) == list(records[0])
    assert len(frame) == len(records)


def test_what_the_records_say(result: SimulationResult) -> None:
    placements = {each["pod"]: each for each in result.placements}
    assert (placements["urgent"]["node"], placements["urgent"]["zone"]) == ("a", "z1")
    assert (placements["old"]["state"], placements["old"]["evicted_by"]) == ("evicted", "default/urgent")
    assert placements["fits-0"]["gang"] == "default/fits"
    (cpu,) = [each for each in result.utilization if (each["node"], each["resource"]) == ("a", "cpu")]
    assert (cpu["requested"], cpu["allocatable"], cpu["share"]) == (4.0, 4.0, 1.0)
    reasons = {each["pod"]: each["message"] for each in result.reasons}
    assert "Insufficient cpu" in reasons["big"]
    assert {"gated", "waits-0"} < set(reasons)
    gangs = {each["gang"]: each for each in result.gangs}
    assert (gangs["fits"]["placed"], gangs["waits"]["placed"], gangs["waits"]["phase"]) == (1, 0, "Pending")
    (small,) = [each for each in result.queues if (each["queue"], each["resource"]) == ("small", "cpu")]
    assert (small["allocated"], small["capability"], small["waiting"]) == (1.0, 1.0, 1)
    assert math.isnan(next(each["capability"] for each in result.queues if each["queue"] == "root"))
    assert result.summary["pods"] == len(result.placements)
    assert repr(result).startswith("2 nodes, 10 pods; profile default-scheduler; seed 0; sessions for volcano\n")


class Hostile(Plugin):
    """Rejects everything with markup."""

    def filter(self, state: Any, pod: Any, node: Any) -> str:
        return "<script>alert('reason')</script> & <b>"


class Tags(HTMLParser):
    """Collects elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.found |= {name for name, _ in attrs}


def test_html_shows_a_summary_in_which_nothing_is_markup(result: SimulationResult) -> None:
    html = result._repr_html_()
    assert "Deployment web" in html
    assert "0/2 nodes are available" in html
    evil = '"><img src=x onerror=alert(1)>'
    hostile = mooring.simulate([node("n"), pod(evil)], plugins=[Hostile])._repr_html_()
    assert "alert(&#x27;reason&#x27;)" in hostile
    for text in (html, hostile):
        tags = Tags()
        tags.feed(text)
        assert tags.found <= {
            "div", "class", "p", "br", "b", "table", "caption", "thead", "tbody", "tr", "th", "td", "style",
            "dl", "dt", "dd",
        }  # fmt: skip


def test_html_is_short() -> None:
    many = [workload("Deployment", f"web-{number}", replicas=1, template={"nodeName": ""}) for number in range(200)]
    html = mooring.simulate([node("n"), *many])._repr_html_()
    assert "... and 185 more" in html
    assert len(html) < 20_000


def test_failures_of_plugins_are_shown() -> None:
    class Broken(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> str:
            raise KeyError("missing")

    broken = mooring.simulate([node("n"), pod("p")], plugins=[Broken])
    assert [(each["plugin"], each["count"] > 0) for each in broken.plugin_failures] == [("Broken", True)]
    assert "KeyError: 'missing'" in repr(broken)
    assert "KeyError: &#x27;missing&#x27;" in broken._repr_html_()


def test_nothing_to_schedule() -> None:
    empty = mooring.simulate(node("n"))
    assert (empty.placements, empty.reasons, empty.gangs, empty.queues) == ([], [], [], [])
    assert "1 node, 0 pods" in empty._repr_html_()
