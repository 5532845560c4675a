"""SessionGang: what is tried in sessions for a gang that waits."""

from __future__ import annotations

import random

import msgspec

from bench.pending_gangs import GANGS, Gang, gang_engine, session_cluster
from bench.suggestions import cluster
from mooring.api.pod import Pod
from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.plugins import PLUGINS
from mooring.live.batch.session_gang import SessionGang, SessionSetup, group_of, session_gang
from mooring.scheduler.gang_suggestions import NOTHING

CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def made(gang: Gang, conf: str = CONF) -> SessionGang | None:
    engine = gang_engine([*cluster(12, random.Random(0)), *gang.objects])
    setup = SessionSetup(read_conf(conf, actions=ACTIONS, plugins=PLUGINS))
    return session_gang(session_cluster(engine), setup, group_of(gang.pod))


def test_a_gang_that_ends_at_a_known_time_is_waited_for() -> None:
    gang = GANGS["gang: another runs"]("pending", random.Random(1))
    objects = []
    for item in gang.objects:
        if isinstance(item, Pod) and item.node_name:
            spec = msgspec.structs.replace(item.spec, active_deadline_seconds=3600)
            status = msgspec.structs.replace(item.status, start_time="2026-01-01T00:00:00Z")
            item = msgspec.structs.replace(item, spec=spec, status=status)  # noqa: PLW2901
        objects.append(item)
    found = made(gang._replace(objects=tuple(objects)))
    assert found is not None
    texts = [each.text for each in found.changes(found.decide(NOTHING), NOTHING)]
    assert any("finishes; it ends at 2026-01-01T01:00:00Z at the latest" in text for text in texts)


def test_sessions_that_ask_an_http_server_are_not_repeated() -> None:
    conf = CONF.replace("{name: gang}", "{name: gang}, {name: extender}")
    assert made(GANGS["gang: cpu"]("pending", random.Random(1)), conf) is None


def test_a_pod_without_a_group_has_no_gang() -> None:
    gang = GANGS["gang: cpu"]("pending", random.Random(1))
    pod = msgspec.structs.replace(gang.pod, metadata=msgspec.structs.replace(gang.pod.metadata, annotations={}))
    assert group_of(pod) == ""
    assert made(gang._replace(pod=pod)) is None
