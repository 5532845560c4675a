"""The rule as an HTTP extender in its own process. `python -m bench.plugins.extender` prints its port."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from aiohttp import web

from bench.plugins.rule import REASON


def _filter(names: list[str]) -> dict[str, Any]:
    failed = {name: REASON for name in names if name[-1] == "0"}
    return {"NodeNames": [name for name in names if name not in failed], "FailedNodes": failed}


def _prioritize(names: list[str]) -> list[dict[str, Any]]:
    return [{"Host": name, "Score": int(name[-1])} for name in names]


def _answers(verb: Callable[[list[str]], Any]) -> Any:
    async def answer(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        return web.json_response(verb(asked["NodeNames"]))

    return answer


async def main() -> None:
    """Serve until terminated."""
    app = web.Application(client_max_size=1 << 30)
    app.add_routes([web.post("/filter", _answers(_filter)), web.post("/prioritize", _answers(_prioritize))])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
