"""The Pod view: the matrix of nodes and plugins, scores, the timeline, and search."""

from __future__ import annotations

import pytest

from mooring.dashboard.pod_view import TOTAL, PodView
from mooring.framework.events import ActionType
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.testing import make_node, make_pod
from tests.dashboard.scene import engine_with, mixed, nodes, schedule


def test_the_matrix_of_a_pending_pod_has_the_reason_of_every_node() -> None:
    found = PodView(mixed()).matrix("default/giant")
    assert (found["feasible"], found["nodes"], found["chosen"]) == (0, 6, "")
    assert found["message"].startswith("0/6 nodes are available: 6 Insufficient cpu.")
    for row in found["rows"]:
        assert (row["plugin"], row["reasons"]) == ("NodeResourcesFit", ["Insufficient cpu"])
        assert found["filters"][row["place"]] == "NodeResourcesFit"
    assert "NodePorts" in found["skipped"]


def test_rejected_nodes_that_passed_most_filters_come_first() -> None:
    full = make_node("full").capacity(cpu="1", memory="1Gi", pods=10).obj()
    smaller = make_node("smaller").capacity(cpu="1", memory="64Gi", pods=10).obj()
    cordoned = make_node("cordoned").capacity(cpu="64", memory="64Gi", pods=10).unschedulable().obj()
    engine = engine_with(cordoned, full, smaller, make_pod("big").req(cpu="8", memory="8Gi").obj())
    rows = PodView(engine).matrix("default/big")["rows"]
    assert [row["node"] for row in rows] == ["smaller", "full", "cordoned"]


def test_the_matrix_of_a_placed_pod_has_raw_normalized_and_weighted_scores() -> None:
    engine = mixed()
    before = engine.cache.table.pods["default/web-0"].pod if "default/web-0" in engine.cache.table.pods else None
    found = PodView(engine).matrix("default/web-0")
    assert found["feasible"] == 6
    weights = [each["weight"] for each in found["scorers"]]
    names = [each["name"] for each in found["scorers"]]
    assert "NodeResourcesFit" in names
    best = found["rows"][0]
    for row in found["rows"]:
        assert row["total"] == sum(cell[2] for cell in row["scores"]) <= best["total"]
        assert all(cell[2] == cell[1] * weight for cell, weight in zip(row["scores"], weights, strict=True))
    assert engine.cache.table.check() == []
    assert before is None or engine.cache.table.pods[before.uid].pod is before


async def test_pages_and_search() -> None:
    view = PodView(mixed(30))
    second = view.matrix("default/web-0", offset=20, limit=10)
    assert len(second["rows"]) == 10
    assert {row["node"] for row in view.matrix("default/web-0", search="NODE-1")["rows"]} == {
        "node-1", *(f"node-1{number}" for number in range(10))
    }  # fmt: skip
    assert [each["pod"] for each in (await view.search("GIANT"))["pods"]] == ["default/giant"]
    assert (await view.search(""))["pods"][0]["node"] == ""


def test_scores_of_all_nodes_mark_rejected_ones() -> None:
    engine = engine_with(
        nodes(4), make_node("small").capacity(cpu="1", pods=10).obj(), make_pod("web").req(cpu="2").obj()
    )
    view = PodView(engine)
    found = view.scores("default/web", "")
    assert found["plugin"] == TOTAL
    assert found["scores"][4] == -1
    assert found["highest"] == max(found["scores"])
    assert set(view.scores("default/web", "NodeResourcesFit")["scores"]) <= {-1, *range(101)}
    with pytest.raises(HttpError, match="does not score"):
        view.scores("default/web", "Missing")


async def test_the_timeline_tells_attempts_and_wake_ups() -> None:
    engine = engine_with(nodes(1), make_pod("big").req(cpu="9").created("2026-01-01T00:00:00Z").obj())
    engine.put(make_node("large").capacity(cpu="64", pods=10).obj())
    engine.queue.tick(engine.queue.next_tick)
    schedule(engine)
    found = await PodView(engine).details("default/big")
    kinds = [each["kind"] for each in found["timeline"]]
    assert kinds[:2] == ["created", "queued"]
    assert [each["text"] for each in found["timeline"]][-1].startswith("Attempt 2: large chosen")
    failed = next(each for each in found["timeline"] if each["kind"] == "failed")
    assert failed["plugins"] == ["NodeResourcesFit"]
    assert any("NodeAdd" in each["text"] for each in found["timeline"])


async def test_details_have_the_explanation_and_suggestions() -> None:
    found = await PodView(mixed()).details("default/giant")
    assert found["explanation"]["state"] == "pending"
    assert found["explanation"]["suggestions"]
    assert found["description"]["requests"] == {"cpu": "100"}


@pytest.mark.parametrize(("key", "status"), [("default/missing", 404), ("nonsense", 404), ("default/foreign", 409)])
def test_unknown_pods_are_errors(key: str, status: int) -> None:
    engine = engine_with(nodes(1))
    engine.cache.put(make_pod("foreign").scheduler("other").obj())
    with pytest.raises(HttpError) as error:
        PodView(engine).matrix(key)
    assert error.value.status == status


def test_moves_are_bounded() -> None:
    engine = engine_with(nodes(1), make_pod("big").req(cpu="9").obj())
    for number in range(20):
        engine.queue.on_event("Node", ActionType.ADD, None, make_node(f"n{number}").capacity(cpu="64", pods=10).obj())
        engine.queue.tick(engine.queue.next_tick)
        schedule(engine)
    found = engine.queue.find("default/big")
    assert found is not None
    assert len(found[1].moves) == 8
