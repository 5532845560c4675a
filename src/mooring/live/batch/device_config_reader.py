"""Reads the ConfigMap of Volcano's device plugins, for the session plugin `deviceshare`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from mooring.batch.conf import BatchConf
from mooring.batch.device_config import DEFAULT, DeviceConfig, DeviceConfigError, config_of
from mooring.batch.device_kinds import config_map_place
from mooring.kube import Client, KubeError, NotFound
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.batch")

_SECONDS: Final = 60.0


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class DeviceConfigReader:
    """Reads the ConfigMap periodically while the plugin is configured. Volcano reads it once."""

    def __init__(self, client: Client, conf: Callable[[], BatchConf], use: Callable[[DeviceConfig], None]) -> None:
        """``use`` receives what the ConfigMap says."""
        self._client = client
        self._conf = conf
        self._use = use
        self._last_error = ""

    async def run(self, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Read until cancelled."""
        while True:
            await sleep(_SECONDS)
            await self.read()

    async def read(self) -> None:
        """Read the ConfigMap. Without one, and if it is invalid, the default applies; a failure is logged once."""
        namespace, name = config_map_place(self._conf())
        if not name:
            return
        problem = ""
        try:
            answer = await self._client.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
            self._use(config_of(msgspec.json.decode(answer, type=_ConfigMap).data))
        except NotFound:
            self._use(DEFAULT)
        except KubeError as error:  # what was read before stays in effect
            problem = str(error)
        except (DeviceConfigError, msgspec.MsgspecError) as error:
            problem = str(error)
            self._use(DEFAULT)
        except Exception as error:
            report_unexpected("the ConfigMap of the device plugins cannot be read", error)
        if problem and problem != self._last_error:
            log.warning(
                "The ConfigMap of the device plugins cannot be used", config_map=f"{namespace}/{name}", error=problem
            )
        self._last_error = problem
