"""The application of the endpoints is imported for the first client."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import asyncio, sys, urllib.request
import mooring.cli.run, mooring.live
from mooring.live.endpoints.endpoint_server import EndpointServer, LateExtensions, ServerSettings, Sources

made = []

async def main():

    sources = Sources(metrics=None, resources=None, config=None, decisions=None, live={}, ready={})
    extensions = LateExtensions(lambda: made.append("extensions") or [])
    server = EndpointServer(ServerSettings(port=0, insecure=True), sources, None, extensions=[extensions])
    await server.start()
    print("aiohttp" in sys.modules, made)
    url = f"{server.url}/healthz"
    print((await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())).decode())
    await server.stop()
    print("aiohttp" in sys.modules, made)

asyncio.run(main())
"""


def test_aiohttp_and_extensions_are_imported_for_the_first_client() -> None:

    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False []", "ok", "True ['extensions']"]
