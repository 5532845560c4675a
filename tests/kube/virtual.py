"""An event loop whose clock jumps: hours pass in no time, in the same order every time. For code that does no I/O."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._elapsed = 0.0
        loop = self

        class Selector(selectors.DefaultSelector):  # type: ignore[valid-type,misc]
            def select(self, timeout: float | None = None) -> Any:
                if timeout is None:
                    raise RuntimeError("everything waits, and nothing is due: a deadlock")
                loop._elapsed += max(0.0, timeout)
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self._elapsed


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
