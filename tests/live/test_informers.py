"""Informers: what is said where the cluster does not let the scheduler read."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from mooring.config import default_config
from mooring.kube import Access, Client
from mooring.live.informers import Informers, Shown
from mooring.scheduler.engine import Engine
from tests.kube.server import Api, Fault


async def test_missing_rights_are_told_once_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.live.informers._LOOK_SECONDS", 0.01)

    def refuse(request: Any) -> Fault | None:
        denied = any(part in request.path for part in ("/nodes", "/poddisruptionbudgets"))
        return Fault(status=403, body={"message": "no", "reason": "Forbidden"}) if denied else None

    with capture_logs() as lines:
        async with Api() as api, Client(Access(server=api.url)) as client:
            api.fault = refuse
            informers = Informers(client, Engine(default_config()), lambda: None, Shown())
            async with asyncio.TaskGroup() as tasks:
                informers.start(tasks)
                told = cast("asyncio.Task[None]", next(each for each in asyncio.all_tasks() if _is_teller(each)))
                await asyncio.wait_for(told, 10)
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert "`mooring rbac` prints the roles" in line["event"]
    assert set(line["kinds"].split(", ")) <= {"Node", "PodDisruptionBudget"}


def _is_teller(task: asyncio.Task[Any]) -> bool:
    return task.get_name() == "missing rights"
