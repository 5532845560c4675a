"""The ConfigMap of the device plugins is read, and read again."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.conf import BatchConf, read_conf
from mooring.batch.device_config import DEFAULT, DeviceConfig
from mooring.batch.plugins import PLUGINS
from mooring.kube import Client, Forbidden, NotFound
from mooring.live.batch.device_config_reader import DeviceConfigReader
from tests.log_capture import capture_logs

PATH = "/api/v1/namespaces/kube-system/configmaps/volcano-vgpu-device-config"


class Server:
    """Answers with a ConfigMap, or with an error."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def call(self, method: str, path: str) -> bytes:
        self.asked.append(f"{method} {path}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return msgspec.json.encode({"data": {"device-config.yaml": self.answer}})


def conf(arguments: str = "", plugin: str = "deviceshare") -> BatchConf:
    text = f'actions: "allocate"\ntiers:\n- plugins: [{{name: {plugin}, arguments: {{{arguments}}}}}]\n'
    return read_conf(text, source="", actions=ACTIONS, plugins=PLUGINS, both_spellings=False)


def reader(server: Server, found: list[DeviceConfig], given: BatchConf | None = None) -> DeviceConfigReader:
    return DeviceConfigReader(cast(Client, server), lambda: given or conf(), found.append)


def failure(kind: type[Exception]) -> Exception:
    return kind("no")


async def test_it_is_read() -> None:
    server, found = Server("nvidia: {resourceCountName: a.b/c}"), list[DeviceConfig]()
    await reader(server, found).read()
    assert server.asked == [f"GET {PATH}"]
    assert [each.gpu.resource_count_name for each in found] == ["a.b/c"]


async def test_arguments_name_it() -> None:
    server = Server("")
    given = conf("deviceshare.KnownGeometriesCMName: devices, deviceshare.KnownGeometriesCMNamespace: gpus")
    await reader(server, [], given).read()
    assert server.asked == ["GET /api/v1/namespaces/gpus/configmaps/devices"]


async def test_it_is_not_read_without_the_plugin() -> None:
    server = Server("")
    await reader(server, [], conf(plugin="gang")).read()
    assert server.asked == []


@pytest.mark.parametrize(
    ("answer", "used", "warnings"),
    [
        (NotFound(404, "NotFound", "no"), [DEFAULT] * 2, 0),
        (Forbidden(403, "Forbidden", "no"), [], 1),
        ("nvidia: 3", [DEFAULT] * 2, 1),
        (ValueError("unexpected"), [], 0),
    ],
    ids=["missing", "forbidden", "invalid", "unexpected"],
)
async def test_without_a_valid_one(answer: Any, used: list[DeviceConfig], warnings: int) -> None:
    found = list[DeviceConfig]()
    with capture_logs() as logs:
        tested = reader(Server(answer), found)
        await tested.read()
        await tested.read()
    assert found == used
    assert sum("cannot be used" in each["event"] for each in logs) == warnings, "once"


class Reports(Server):
    """Also answers lists with ConfigMaps of MindCluster."""

    async def call(self, method: str, path: str) -> bytes:
        answer = await super().call(method, path)
        if "labelSelector" not in path:
            return answer
        report = '{"mindx-dl-deviceinfo-a": {"DeviceList": {"huawei.com/Ascend310P": "Ascend310P-0"}, "UpdateTime": 5}}'
        name = "cluster-info-device-0"
        return msgspec.json.encode({"items": [{"metadata": {"name": name}, "data": {name: report}}]})


async def test_reports_of_mindcluster_are_read_too() -> None:
    server, found = Reports("nvidia: {}"), list[DeviceConfig]()
    enabled = conf("deviceshare.AscendMindClusterVNPUEnable: true")
    await reader(server, found, enabled).read()
    assert server.asked[0] == "GET /api/v1/namespaces/mindx-dl/configmaps?labelSelector=mx-consumer-volcano%3Dtrue"
    assert found[0].reports.devices["a"].devices == {"huawei.com/Ascend310P": "Ascend310P-0"}


async def test_reports_that_cannot_be_read_are_logged_once_and_the_last_ones_stay() -> None:
    server, found = Reports("nvidia: {}"), list[DeviceConfig]()
    tested = reader(server, found, conf("deviceshare.AscendMindClusterVNPUEnable: true"))
    await tested.read()
    server.answer = Forbidden(403, "Forbidden", "no")
    with capture_logs() as logs:
        await tested.read()
        await tested.read()
    assert sum("MindCluster" in each["event"] for each in logs) == 1
    server.answer = NotFound(404, "NotFound", "no")
    await tested.read()
    assert found[-1].reports == found[0].reports


async def test_it_is_read_again() -> None:
    server, found = Server(""), list[DeviceConfig]()
    pauses = 0

    async def sleep(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses > 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await reader(server, found).run(sleep)
    assert len(server.asked) == 2
