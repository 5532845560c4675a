"""One watch: a stream of lines, decoded in batches as they arrive. Hot path."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Generic, TypeVar

from mooring.api import KubeObject
from mooring.kube.decoding import WatchEvent, decode_line
from mooring.kube.errors import ApiError
from mooring.kube.resources import Resource
from mooring.kube.rest import Client, query

ObjectT = TypeVar("ObjectT", bound=KubeObject)


@dataclass(frozen=True)
class Selection(Generic[ObjectT]):
    """Which objects of a kind are meant: of one namespace or all, chosen by selectors in Kubernetes' syntax."""

    resource: Resource[ObjectT]
    namespace: str = ""
    labels: str = ""
    fields: str = ""


async def watch(
    client: Client, selection: Selection[ObjectT], *, version: str, seconds: int, initial: bool = False
) -> AsyncGenerator[list[WatchEvent[ObjectT]], None]:
    """Follow changes after `version`, in batches, until the server ends it, which it should do after `seconds`.

    The first batch is empty: the server follows, though nothing may change for long. With `initial`, all objects there
    are come next, and then a bookmark that says so. Raises what the server ends it
    with (Gone above all), ConnectionFailed, and OutcomeUnknown where the connection broke. Close it when done.
    """
    target = selection.resource.path(namespace=selection.namespace) + query(
        watch="true",
        allowWatchBookmarks="true",
        resourceVersion=version,
        timeoutSeconds=seconds,
        labelSelector=selection.labels,
        fieldSelector=selection.fields,
        **({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"} if initial else {}),
    )
    await client.admit()
    async with client.stream(target) as chunks:
        yield []
        rest = b""
        async for chunk in chunks.iter_any():
            lines = (rest + chunk).split(b"\n")
            # What follows the last line break is not complete yet. At the end it is dropped: it will be sent again.
            rest = lines.pop()
            batch: list[WatchEvent[ObjectT]] = []
            for line in lines:
                if not line.strip():
                    continue
                event = decode_line(line, selection.resource)
                if isinstance(event, ApiError):
                    if batch:
                        yield batch
                    raise event
                batch.append(event)
            if batch:
                yield batch
