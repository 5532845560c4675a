"""Objects with amounts, durations and numbers that cannot be parsed: sessions skip them and go on."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.codec import decode_json
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, Queue, ResourceQuota
from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.evaluate import offline_cluster
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import action_steps, close_session, open_session
from mooring.batch.session import Session
from tests.batch.cases import conf, group, node, pod, queue
from tests.hostile import AMOUNTS, EXTREME_AMOUNTS, INVALID_AMOUNTS

TIERS = (
    ("priority", "gang", "conformance", "sla", "tdm", "resourcequota"),
    ("drf", "predicates", "proportion", "nodeorder", "binpack"),
)
CAPACITY = (("priority", "gang", "sla"), ("predicates", "capacity", "nodeorder"))
KINDS: dict[str, Any] = {"Node": Node, "Pod": Pod, "PodGroup": PodGroup, "Queue": Queue, "ResourceQuota": ResourceQuota}
#: The longest that a session with hostile objects may take, in seconds of CPU.
LIMIT = 5.0


def run(objects: list[dict[str, Any]], *tiers: tuple[str, ...]) -> Session:
    """Run one session on a cluster of these objects."""
    text = conf(*tiers, actions="enqueue, allocate, preempt, reclaim, backfill")
    decoded = [decode_json(msgspec.json.encode(each), KINDS[each["kind"]]) for each in objects]
    session = offline_cluster(decoded).session(read_conf(text, actions=ACTIONS, plugins=PLUGINS))
    opened = open_session(session)
    for _ in action_steps(session):
        pass
    close_session(session, opened)
    return session


def normal() -> list[dict[str, Any]]:
    return [
        node("node-0"),
        queue("root"),
        queue("default"),
        group("normal", 2),
        pod("normal-0", "normal"),
        pod("normal-1", "normal"),
    ]


@pytest.mark.parametrize("tiers", [TIERS, CAPACITY])
@pytest.mark.parametrize("text", INVALID_AMOUNTS)
def test_a_group_that_cannot_be_parsed_is_skipped(text: str, tiers: tuple[tuple[str, ...], ...]) -> None:
    session = run([*normal(), group("bad", 1, minResources={"cpu": text}), pod("bad-0", "bad")], *tiers)
    assert [task.name for task in session.bindings] == ["normal-0", "normal-1"]
    assert "default/bad" not in session.jobs
    (found,) = session.invalid
    assert isinstance(found.item, PodGroup)
    assert found.message.startswith("spec.minResources: cpu: ")
    assert len(found.message) < 400


@pytest.mark.parametrize("tiers", [TIERS, CAPACITY])
@pytest.mark.parametrize("field", ["capability", "deserved", "guarantee"])
@pytest.mark.parametrize("text", ["lots", "1e1.5"])
def test_a_queue_that_cannot_be_parsed_is_skipped(text: str, field: str, tiers: tuple[tuple[str, ...], ...]) -> None:
    amounts: Any = {"cpu": text}
    bad = queue("bad", **{field: {"resource": amounts} if field == "guarantee" else amounts})
    session = run([*normal(), bad, group("other", 1, queue="bad"), pod("other-0", "other")], *tiers)
    assert [task.name for task in session.bindings] == ["normal-0", "normal-1"]
    assert [(type(each.item), each.item.name) for each in session.invalid] == [(Queue, "bad"), (PodGroup, "other")]
    assert session.invalid[1].message.startswith('queue "bad" is invalid: spec.')


def test_a_quota_that_cannot_be_parsed_admits_nothing() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "bad", "namespace": "default", "uid": "quota"},
        "status": {"hard": {"cpu": "1e1.5"}, "used": {"cpu": "0"}},
    }
    asks = group("asks", 1, minResources={"cpu": "1"})
    session = run([*normal(), quota, asks, pod("asks-0", "asks")], *TIERS)
    assert [task.name for task in session.bindings] == ["normal-0", "normal-1"]
    assert [each.item.name for each in session.invalid] == ["bad"]


@pytest.mark.parametrize("tiers", [TIERS, CAPACITY])
@pytest.mark.parametrize("text", EXTREME_AMOUNTS)
def test_extreme_amounts_of_one_group_and_queue_do_not_stop_the_others(
    text: str, tiers: tuple[tuple[str, ...], ...]
) -> None:
    amounts = {"cpu": text, "memory": text, "nvidia.com/gpu": text}
    bad = queue("bad", capability=amounts, deserved=amounts)
    objects = [bad, group("odd", 1, queue="bad", minResources=amounts), pod("odd-0", "odd", cpu=text)]
    started = time.process_time()
    session = run([*normal(), *objects], *tiers)
    assert time.process_time() - started < LIMIT
    assert session.invalid == []
    assert {"normal-0", "normal-1"} <= {task.name for task in session.bindings}


def test_a_pod_with_a_request_that_cannot_be_parsed_is_skipped() -> None:
    session = run([*normal(), group("odd", 1), pod("odd-0", "odd", cpu="1e1.5")], *TIERS)
    assert [task.name for task in session.bindings] == ["normal-0", "normal-1"]
    assert [(each.item.name, each.message[:7]) for each in session.invalid] == [("odd-0", "'1e1.5'")]


texts = st.one_of(
    st.sampled_from([*AMOUNTS, "1", "100m", "1Gi", "inf", "nan", "1e400", "-1h", "9" * 400 + "h", "99%", "-5%"]),
    st.text(max_size=30),
    st.from_regex(r"[+-]?[0-9]{0,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,6}|[kMGTPEmun]i?|%|h|s)?", fullmatch=True),
)
ANNOTATIONS = (
    "volcano.sh/sla-waiting-time",
    "sla-waiting-time",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
    "volcano.sh/preemptable",
    "volcano.sh/revocable-zone",
    "volcano.sh/hierarchy",
    "volcano.sh/hierarchy-weights",
    "volcano.sh/oversubscription-cpu",
    "volcano.sh/oversubscription-memory",
    "volcano.sh/task-priority",
    "volcano.sh/task-topology-affinity",
    "volcano.sh/task-spec",
)
annotations = st.dictionaries(st.sampled_from(ANNOTATIONS), texts, max_size=4)
amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "x"]), texts, max_size=3)
numbers = st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), tiers=st.sampled_from([TIERS, CAPACITY]))
def test_no_object_makes_a_session_fail(data: st.DataObject, tiers: tuple[tuple[str, ...], ...]) -> None:
    draw = data.draw
    hostile = group(
        "hostile",
        draw(numbers),
        queue=draw(st.sampled_from(["default", "odd"])),
        minResources=draw(amounts),
        minTaskMember=draw(st.dictionaries(st.sampled_from(["", "a"]), numbers, max_size=2)),
    )
    odd = queue(
        "odd",
        draw(numbers),
        capability=draw(amounts),
        deserved=draw(amounts),
        guarantee={"resource": draw(amounts)},
        priority=draw(numbers),
    )
    member = pod("hostile-0", "hostile")
    member["spec"]["containers"][0]["resources"] = {"requests": draw(amounts), "limits": draw(amounts)}
    strange = node("strange", cpu=draw(st.sampled_from(EXTREME_AMOUNTS)))
    for each in (hostile, odd, member, strange):
        each["metadata"]["annotations"] = {**each["metadata"].get("annotations", {}), **draw(annotations)}
    objects = [*normal(), odd, hostile, member, strange]
    started = time.process_time()
    session = run(objects, *tiers)
    assert time.process_time() - started < LIMIT
    assert all(len(each.message) < 1000 for each in session.invalid)
