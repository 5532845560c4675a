"""An extender for tests: a process of its own that does what it is told and notes what it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

PROGRAM = Path(__file__).parent / "process.py"


class ExtenderProcess:
    """A running extender."""

    def __init__(
        self, folder: Path, rules: dict[str, Any], *, cert: str = "", key: str = "", client_ca: str = ""
    ) -> None:
        self._rules = folder / "rules.json"
        self._log = folder / "requests.jsonl"
        self._port = folder / "port"
        self._log.touch()
        self.obey(rules)
        options = ["--cert", cert, "--key", key] if cert else []
        options += ["--client-ca", client_ca] if client_ca else []
        files = [str(self._rules), str(self._log), str(self._port)]
        self._process = subprocess.Popen([sys.executable, str(PROGRAM), *files, *options])
        self.port = self._wait_for_port()
        self.url = f"{'https' if cert else 'http'}://127.0.0.1:{self.port}/scheduler"

    def obey(self, rules: dict[str, Any]) -> None:
        """Do this from now on: verb -> behaviour (see process.py)."""
        new = self._rules.with_suffix(".new")
        new.write_text(json.dumps(rules))
        new.replace(self._rules)

    def requests(self, verb: str = "") -> list[dict[str, Any]]:
        """What it was asked: path, content type and body."""
        found = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [each for each in found if not verb or each["path"].endswith(f"/{verb}")]

    def forget(self) -> None:
        """Begin the notes anew."""
        self._log.write_text("")

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _wait_for_port(self) -> int:
        def port() -> str:
            assert self._process.poll() is None, "the extender did not start"
            return self._port.read_text() if self._port.exists() else ""

        return int(wait_until(port))


@contextmanager
def extender(folder: Path, rules: dict[str, Any], **options: str) -> Iterator[ExtenderProcess]:
    """An extender that runs for a while."""
    folder.mkdir(parents=True, exist_ok=True)
    process = ExtenderProcess(folder, rules, **options)
    try:
        yield process
    finally:
        process.stop()
