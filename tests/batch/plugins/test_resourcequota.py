"""resourcequota: the minimum of jobs against the quotas of their namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.cases import conf, gang, node, session_of


def quota(hard: dict[str, str], used: dict[str, str] | None = None, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": "quota", "namespace": namespace, "uid": f"quota-{namespace}"}
    status = {"hard": hard, "used": used or {}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, "status": status}


@pytest.mark.parametrize(
    ("hard", "used", "wanted", "permitted"),
    [
        ({"cpu": "2"}, {}, {"cpu": "2"}, True),
        ({"cpu": "2"}, {"cpu": "500m"}, {"cpu": "2"}, False),
        ({"memory": "1Gi"}, {}, {"cpu": "9"}, True),
        ({"cpu": "1"}, {}, None, True),
        ({"cpu": "2", "memory": "1Gi"}, {}, {"cpu": "1", "memory": "2Gi"}, False),
    ],
)
def test_admission(hard: dict[str, str], used: dict[str, str], wanted: dict[str, str] | None, permitted: bool) -> None:
    spec = {} if wanted is None else {"minResources": wanted}
    session = session_of(conf(("resourcequota",)), node("a"), quota(hard, used), gang("g", 1, **spec))
    (one,) = session.jobs.values()
    assert session.job_enqueueable(one) is permitted


def test_jobs_admitted_in_this_session_count() -> None:
    jobs = [gang(f"g{number}", 1, minResources={"cpu": "1"}) for number in range(3)]
    session = session_of(conf(("resourcequota",)), node("a"), quota({"cpu": "2"}), *jobs)
    assert [session.job_enqueueable(each) for each in session.jobs.values()] == [True, True, False]


def test_the_message_names_what_is_exceeded() -> None:
    quotas = quota({"cpu": "2", "memory": "1Gi"}, {"cpu": "1500m", "memory": "0"})
    session = session_of(conf(("resourcequota",)), node("a"), quotas, gang("g", 1, minResources={"cpu": "1"}))
    (one,) = session.jobs.values()
    session.job_enqueueable(one)
    text = "resource quota insufficient, requested: {cpu: 1}, used: {cpu: 1500m}, limited: {cpu: 2}"
    assert session.notes == [(one, text)]


def test_quotas_of_other_namespaces_do_not_count() -> None:
    objects = [node("a"), quota({"cpu": "0"}, namespace="other"), gang("g", 1, minResources={"cpu": "1"})]
    session = session_of(conf(("resourcequota",)), *objects)
    assert session.job_enqueueable(next(iter(session.jobs.values())))
