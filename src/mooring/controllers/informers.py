"""One reflector for each selection of objects that some reconciler reads, whether its kind is served yet or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from mooring.controllers.reconciler import Selection
from mooring.kube import Change, Client
from mooring.live.custom import Informer

_HINT = "`mooring batch install` puts its definition on the cluster"


class Informers:
    """Keeps the view current."""

    def __init__(
        self, client: Client, selections: Iterable[Selection], apply: Callable[[list[Change[Any]]], None]
    ) -> None:
        self._informers = {
            selection: Informer(
                client,
                selection.resource,
                apply,
                hint=lambda kind: f"no {kind} is looked after until then; {_HINT}",
                labels=selection.labels,
                fields=selection.fields,
            )
            for selection in dict.fromkeys(selections)
        }

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to list and watch."""
        for selection, informer in self._informers.items():
            tasks.create_task(informer.run(), name=f"watch {selection.resource.kind}")

    async def settled(self) -> None:
        """Wait until everything that exists and is served was seen once."""
        for informer in self._informers.values():
            await informer.settled.wait()

    def lagging(self) -> list[str]:
        """The kinds that are served and have not been read yet, or cannot be now."""
        return [selection.resource.kind for selection, informer in self._informers.items() if informer.lags]
