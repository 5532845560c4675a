"""WhatIfWorker: answers what-if questions about a running scheduler's cluster, one at a time, on a thread.

The objects are immutable, so that only the list of them is taken in the scheduler's loop. The simulation shares the
interpreter with the scheduler; `mooring serve what-if` answers many questions in a process of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from mooring.api.decode_errors import ManifestError
from mooring.api.meta import KubeObject
from mooring.config import ConfigError
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.loading import Setup
from mooring.scheduler.profile import ProfileError
from mooring.simulation.sources import Given, InputError
from mooring.simulation.what_if import Comparison, Fit, given_objects
from mooring.simulation.what_if_question import Question, ask, read_question, run_simulation

#: The time that one question may take, and the number of listed pods of each kind.
_SECONDS: Final = 60.0
_ROWS: Final = 200
_MAX_BODY: Final = 512 * 1024

#: Returns the objects of the cluster, read in the scheduler's loop.
ReadObjects = Callable[[], Awaitable[list[KubeObject]]]


class WhatIfWorker:
    """Answers questions about one cluster. A question while another one is being answered is rejected."""

    def __init__(
        self, setup: Callable[[], Setup], *, seconds: float = _SECONDS, given: Sequence[Given] | None = None
    ) -> None:
        """``given`` are manifests, which the questions are about instead of the objects of a cluster."""
        self._setup = setup
        self._given = given
        self._seconds = seconds
        self._busy = False

    async def answer(self, body: bytes, objects: ReadObjects) -> dict[str, Any]:
        """Answer a question. Raises HttpError."""
        if len(body) > _MAX_BODY:
            raise HttpError(413, f"the question is longer than {_MAX_BODY:,} bytes")
        if self._busy:
            raise HttpError(429, "Too many requests: another question is being answered; try again later")
        self._busy = True
        try:
            question = read_question(body)
            given = await objects()
            found = await asyncio.to_thread(self._ask, question, given)
        except (InputError, ManifestError, ProfileError) as error:
            raise HttpError(400, str(error)) from None
        except ConfigError as error:
            raise HttpError(400, "; ".join(error.lines())) from None
        except TimeoutError as error:
            raise HttpError(503, str(error)) from None
        finally:
            self._busy = False
        return shown(found)

    def _ask(self, question: Question, objects: list[KubeObject]) -> Comparison | Fit:
        deadline = time.monotonic() + self._seconds

        def check(_done: int, _total: int) -> None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the simulation took longer than {self._seconds:.0f} s; ask `mooring what-if`")

        return ask(
            question,
            given_objects(objects) if self._given is None else self._given,
            present=self._setup(),
            run=lambda given, setup: run_simulation(given, setup, 0, check),
        )


def shown(found: Comparison | Fit) -> dict[str, Any]:
    """Return an answer as plain data, with a limited number of pods of each kind and their full number."""
    if isinstance(found, Fit):
        return {"copies": found.copies, "nodes": found.nodes, "message": found.message, "limit": found.limit}
    answer = found.as_dict()
    lists = ("moved", "scheduled", "pending", "evicted", "deleted")
    answer["counts"] = {name: len(answer[name]) for name in lists}
    return {**answer, **{name: answer[name][:_ROWS] for name in lists}}
