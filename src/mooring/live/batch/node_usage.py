"""The measured load of nodes for the session plugin `usage`, from Prometheus."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.batch.session import NodeUsage
from mooring.config.durations import SECOND, DurationError, parse_duration
from mooring.late_certificates import aiohttp
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.batch")

#: As in Volcano, the label `instance` is the name of the node, and the load is the average of ten minutes.
_CPU: Final = (
    'avg_over_time(clamp_min(100 - (avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) * 100), 0)'
    "[10m:30s])"
)
_MEMORY: Final = "100 * avg_over_time((1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)[10m:30s])"
_DEFAULT_SECONDS: Final = 30.0
_TIMEOUT_SECONDS: Final = 20.0
_MAX_BYTES: Final = 64 << 20


class _Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: list[_Sample] = []


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data = _Data()
    error: str = ""


class UsageError(Exception):
    """The load of nodes cannot be measured. The message says why."""


class UsageReader:
    """Measures the load of nodes periodically, as the configuration's `metrics` say."""

    def __init__(
        self,
        settings: Callable[[], Mapping[str, str]],
        use: Callable[[Mapping[str, NodeUsage]], None],
        clock: Callable[[], float],
    ) -> None:
        """``settings`` returns the configuration's `metrics`, ``use`` receives the load by node name."""
        self._settings = settings
        self._use = use
        self._clock = clock
        self._last_error = ""

    async def run(self, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Measure until cancelled. A failure is logged once; measurements expire after five minutes."""
        while True:
            settings = self._settings()
            try:
                if settings.get("type"):
                    self._use(await self.read(settings))
                    self._last_error = ""
            except UsageError as error:
                if str(error) != self._last_error:
                    log.warning("The load of nodes cannot be measured", error=str(error))
                self._last_error = str(error)
            except Exception as error:
                report_unexpected("the load of nodes cannot be measured", error)
            await sleep(_interval(settings))

    async def read(self, settings: Mapping[str, str]) -> dict[str, NodeUsage]:
        """Return the load by node name. Raises UsageError."""
        kind, address = settings.get("type", ""), settings.get("address", "")
        if kind != "prometheus":
            raise UsageError(f'metrics.type "{kind}" is not supported; use prometheus')
        if not address:
            raise UsageError("metrics.address is missing: write the URL of Prometheus")
        verify = settings.get("tls.insecureSkipVerify") != "true"
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                cpu = await _query(session, address, _CPU, verify=verify)
                memory = await _query(session, address, _MEMORY, verify=verify)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise UsageError(f"{address}: {str(error) or type(error).__name__}") from None
        now = self._clock()
        return {name: NodeUsage(cpu[name], memory[name], now) for name in cpu.keys() & memory.keys()}


async def _query(session: aiohttp.ClientSession, address: str, text: str, *, verify: bool) -> dict[str, float]:
    """Return the result of a query by instance. Raises UsageError."""
    url = f"{address.rstrip('/')}/api/v1/query"
    async with session.post(url, data={"query": text}, ssl=verify) as reply:
        body = await reply.content.read(_MAX_BYTES)
    try:
        answer = msgspec.json.decode(body, type=_Answer, strict=False)
    except msgspec.MsgspecError:
        raise UsageError(f"{address}: status {reply.status}, and not an answer of Prometheus") from None
    if answer.status != "success" or answer.data.result_type != "vector":
        raise UsageError(f"{address}: {answer.error or 'the answer is not a vector'}")
    found = {each.metric.get("instance", ""): float(each.value[1]) for each in answer.data.result}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _interval(settings: Mapping[str, str]) -> float:
    try:
        return max(parse_duration(settings["interval"]) / SECOND, 1.0) if "interval" in settings else _DEFAULT_SECONDS
    except DurationError:
        return _DEFAULT_SECONDS
