"""`make docs-screenshots`: open the built site in Chromium as files, check it, and take the screenshots in docs/images.

At 1280 and 390 pixels: no page may be wider than the window, and nothing may be loaded from the network. The search
must find a method of the reference. Chromium is installed with apt if it is missing. It is driven by its DevTools
protocol, so that no browser needs to be downloaded.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
IMAGES = ROOT / "docs" / "images"
SIZES = {1280: 640, 390: 844}
#: Image -> page.
SHOTS = {"home": "index.html", "reference": "reference/nodes.html#mooring.framework.Nodes.free"}
SEARCH = "waiting_pods allow"
_SECONDS = 30.0


class Browser:
    """A page of Chromium, over the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        #: The URLs that the current page has loaded.
        self.loaded: list[str] = []
        self._events: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method and return its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._receive()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    async def _receive(self) -> Any:
        async with asyncio.timeout(_SECONDS):
            message = await self._socket.receive_json()
        if message.get("method") == "Network.requestWillBeSent":
            self.loaded.append(message["params"]["request"]["url"])
        if "method" in message:
            self._events.append(message["method"])
        return message

    async def open(self, url: str, width: int) -> None:
        """Open a page in a window with a width, and wait until it is loaded."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=SIZES[width],
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        for target in ("about:blank", url):  # a new anchor alone would not load the page again
            self.loaded.clear()
            self._events.clear()
            await self.call("Page.navigate", url=target)
            while "Page.loadEventFired" not in self._events:
                await self._receive()

    async def value(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        result = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def shoot(self, path: Path) -> None:
        """Take a screenshot after animations have ended."""
        await self.value("Promise.all(document.getAnimations().map((each) => each.finished)).then(() => 1)")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = await self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(data["data"]))


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Start Chromium with an empty profile, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="mooring-chromium-", ignore_cleanup_errors=True) as folder:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        command = [chromium(), *flags, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = await _port(Path(folder, "DevToolsActivePort"))
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    pages = await answer.json()
                url = next(each["webSocketDebuggerUrl"] for each in pages if each["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    found = Browser(socket)
                    for domain in ("Page", "Network", "Runtime"):
                        await found.call(f"{domain}.enable")
                    yield found
        finally:
            process.terminate()
            process.wait(20)


async def _port(file: Path) -> int:
    async with asyncio.timeout(_SECONDS):
        while not (file.exists() and file.read_text().strip()):
            await asyncio.sleep(0.05)
    return int(file.read_text().split()[0])


def chromium() -> str:
    """Return the path of Chromium; install it with apt if it is missing."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    if shutil.which("apt-get") and os.geteuid() == 0:
        print("-- installing chromium with apt-get", flush=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
        for command in (["apt-get", "update", "-qq"], install):
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            )
        return shutil.which("chromium") or "chromium"
    raise SystemExit("no Chromium found: install the package `chromium`, or put it on PATH")


async def check(page: Browser, path: Path, width: int) -> list[str]:
    """Open a page, and return its problems."""
    await page.open(path.as_uri(), width)
    problems = [f"loads {url}" for url in page.loaded if not url.startswith(("file:", "data:", "about:", "blob:"))]
    wide = await page.value("document.documentElement.scrollWidth")
    if wide > width:
        problems.append(f"is {wide} pixels wide")
    name = path.relative_to(SITE)
    return [f"{name} at {width} pixels {problem}" for problem in problems]


async def search(page: Browser, width: int) -> int:
    """Type a search query into the page, and return the number of results."""
    await page.open((SITE / "index.html").as_uri(), width)
    await page.value("document.querySelector('#__search').click()")
    await page.value("document.querySelector('.md-search__input').focus()")
    await page.call("Input.insertText", text=SEARCH)
    async with asyncio.timeout(_SECONDS):
        while not (found := await page.value("document.querySelectorAll('.md-search-result__item').length")):
            await page.value("document.querySelector('.md-search__input').dispatchEvent(new KeyboardEvent('keyup'))")
            await asyncio.sleep(0.2)
    return int(found)


async def main() -> int:
    """Check all pages, take the screenshots, and print the problems."""
    if not (SITE / "index.html").exists():
        raise SystemExit("build/site does not exist: run `make docs`")
    pages = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")
    problems: list[str] = []
    async with browser() as page:
        for width in SIZES:
            for path in pages:
                problems += await check(page, path, width)
            for name, target in SHOTS.items():
                await page.open(f"{SITE.as_uri()}/{target}", width)
                await page.shoot(IMAGES / f"{name}-{width}.png")
            found = await search(page, width)
            await page.shoot(IMAGES / f"search-{width}.png")
            print(f"{width} pixels: {len(pages)} pages, {found} results for {SEARCH}")
    print(
        json.dumps(problems, indent=2)
        if problems
        else "no page is wider than the window, and nothing is loaded from the network"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
