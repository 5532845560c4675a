"""Reads the ConfigMaps of device plugins and of MindCluster, for the session plugin `deviceshare`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from mooring.batch.conf import BatchConf
from mooring.batch.device_config import DEFAULT, DeviceConfig, DeviceConfigError, config_of
from mooring.batch.device_kinds import config_map_place, reads_reports
from mooring.batch.mindcluster_reports import NpuReports, npu_reports, report_places
from mooring.kube import Client, KubeError, NotFound
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.batch")

_SECONDS: Final = 60.0
#: MindCluster reports faults of NPUs.
_REPORT_SECONDS: Final = 10.0


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class _ConfigMaps(msgspec.Struct):
    items: list[dict[str, Any]] = []


class DeviceConfigReader:
    """Reads the ConfigMaps periodically while the plugin is configured. Volcano reads the first once."""

    def __init__(self, client: Client, conf: Callable[[], BatchConf], use: Callable[[DeviceConfig], None]) -> None:
        """``use`` receives what the ConfigMaps say."""
        self._client = client
        self._conf = conf
        self._use = use
        self._last_error = self._last_report_error = ""
        self._reports = NpuReports()

    async def run(self, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Read until cancelled."""
        while True:
            await sleep(_REPORT_SECONDS if reads_reports(self._conf()) else _SECONDS)
            await self.read()

    async def read(self) -> None:
        """Read the ConfigMap. Without one, and if it is invalid, the default applies; a failure is logged once."""
        namespace, name = config_map_place(self._conf())
        if not name:
            return
        await self._read_reports()
        problem = ""
        try:
            answer = await self._client.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
            self._use_with_reports(config_of(msgspec.json.decode(answer, type=_ConfigMap).data))
        except NotFound:
            self._use_with_reports(DEFAULT)
        except KubeError as error:  # what was read before stays in effect
            problem = str(error)
        except (DeviceConfigError, msgspec.MsgspecError) as error:
            problem = str(error)
            self._use_with_reports(DEFAULT)
        except Exception as error:
            report_unexpected("the ConfigMap of the device plugins cannot be read", error)
        if problem and problem != self._last_error:
            log.warning(
                "The ConfigMap of the device plugins cannot be used", config_map=f"{namespace}/{name}", error=problem
            )
        self._last_error = problem

    def _use_with_reports(self, config: DeviceConfig) -> None:
        self._use(msgspec.structs.replace(config, reports=self._reports))

    async def _read_reports(self) -> None:
        """Read what MindCluster reports. After a failure, which is logged once, the last reports stay in effect."""
        conf = self._conf()
        if not reads_reports(conf):
            return
        problem = ""
        try:
            found: list[dict[str, Any]] = []
            for place in report_places(conf):
                path = f"/api/v1/namespaces/{place.namespace}/configmaps?labelSelector={place.label}%3Dtrue"
                found += msgspec.json.decode(await self._client.call("GET", path), type=_ConfigMaps).items
            self._reports = npu_reports(conf, found)
        except (KubeError, msgspec.MsgspecError) as error:
            problem = str(error)
        except Exception as error:
            report_unexpected("the ConfigMaps of MindCluster cannot be read", error)
        if problem and problem != self._last_report_error:
            log.warning("The ConfigMaps of MindCluster cannot be read", error=problem)
        self._last_report_error = problem
