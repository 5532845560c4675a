"""The second part of `make newcomer`: one mistake of each kind, and the message for the user.

Each mistake is made in an empty directory with a real command. The message must contain the problem, its location and
the remedy. It must not be a traceback.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

_SECONDS = 60.0
ROOT = Path(__file__).resolve().parent.parent
_CLUSTER: Final = str(ROOT / "examples" / "demo" / "cluster")


class Mistake(NamedTuple):
    """Files with a mistake, the command that detects it, and the required content of the message."""

    kind: str
    command: tuple[str, ...]
    #: Regular expressions for the message. The first one matches its most important line.
    shown: tuple[str, ...]
    files: dict[str, str] = {}  # noqa: RUF012  (never changed)
    code: int = 1


class Told(NamedTuple):
    """The output of a command about a mistake."""

    mistake: Mistake
    code: int
    output: str
    seconds: float

    @property
    def faults(self) -> list[str]:
        """The problems of the message."""
        found = [f"lacks {each!r}" for each in self.mistake.shown if not re.search(each, self.output)]
        if self.code != self.mistake.code:
            found.append(f"exit code {self.code} instead of {self.mistake.code}")
        if "Traceback (most recent call last)" in self.output:
            found.append("is a traceback")
        return found

    @property
    def line(self) -> str:
        """The most important line of the output."""
        lines = self.output.splitlines()
        return next(
            (each.strip() for each in lines if re.search(self.mistake.shown[0], each)), lines[-1] if lines else ""
        )


def _plugin(*lines: str, args: str = "", name: str = "Mine") -> str:
    """Return a plugin with a method on line 7."""
    declared = f"    class Args:\n        {args}\n\n" if args else '    """Mine."""\n\n\n'
    return f"import sys\nfrom mooring.framework import Plugin\nclass {name}(Plugin):\n{declared}" + "".join(
        f"    {line}\n" for line in lines
    )


def _config(args: str = "{}") -> str:
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: default-scheduler\n"
        "  plugins: {multiPoint: {enabled: [{name: Mine}]}}\n"
        f"  pluginConfig: [{{name: Mine, args: {args}}}]\n"
    )


_CHECK: Final = ("plugin", "check", "mine.py")
_SIMULATE: Final = ("simulate", "-f", _CLUSTER, "--plugins-dir", ".")
_SCORE: Final = "def score(self, state, pod, node):"
_SESSION: Final = """\
class Mine:
    def on_session_open(self, session):
        session.add_queue_oder(lambda a, b: 0)
"""

MISTAKES: Final = (
    Mistake(
        "a misspelt method",
        _CHECK,
        (r"mine\.py:7: .*'scor' is no extension point; did you mean 'def score\(self, state, pod, node\)'",),
        {"mine.py": _plugin("def scor(self, state, pod, node):", "    return 1")},
    ),
    Mistake(
        "a wrong signature",
        _CHECK,
        (r"mine\.py:7: .*'score' takes \(self, pod, node\); write 'def score\(self, state, pod, node\)'",),
        {"mine.py": _plugin("def score(self, pod, node):", "    return 1")},
    ),
    Mistake(
        "an exception, in the check",
        _CHECK,
        (r"mine\.py:8.*KeyError: 'missing'",),
        {"mine.py": _plugin(_SCORE, "    return node.labels['missing']")},
    ),
    Mistake(
        "an exception, in a simulation",
        _SIMULATE,
        (r"mine\.py:8 in score: KeyError: 'missing'",),
        {"mine.py": _plugin(_SCORE, "    return node.labels['missing']")},
    ),
    Mistake(
        "sys.exit in a plugin",
        _CHECK,
        (r"mine\.py:8.*SystemExit",),
        {"mine.py": _plugin(_SCORE, "    sys.exit(3)")},
    ),
    Mistake(
        "sys.exit in a simulation",
        _SIMULATE,
        (r"mine\.py:8.*SystemExit",),
        {"mine.py": _plugin(_SCORE, "    sys.exit(3)")},
    ),
    Mistake(
        "an endless loop",
        _CHECK,
        (r"mine\.py:[89]: .*did not return within",),
        {"mine.py": _plugin(_SCORE, "    while True:", "        pass")},
    ),
    Mistake(
        "a result of the wrong type",
        _CHECK,
        (r"mine\.py:7: .*score returned str; return a number",),
        {"mine.py": _plugin(_SCORE, "    return 'high'")},
    ),
    Mistake(
        "a score out of range",
        _CHECK,
        (r"mine\.py:7: .*invalid score 250; return 0 to 100",),
        {"mine.py": _plugin(_SCORE, "    return 250")},
    ),
    Mistake(
        "scores between 0 and 1",
        _CHECK,
        (r"mine\.py:7: .*between 0 and 1", "score_range"),
        {"mine.py": _plugin(_SCORE, "    return 0.9 if node.name.endswith('1') else 0.1")},
        0,
    ),
    Mistake(
        "a misspelt field of the arguments",
        (*_CHECK, "--config", "scheduler.yaml"),
        (r"scheduler\.yaml:6: .*lable", r"Did you mean \"label\"\?"),
        {"mine.py": _plugin(_SCORE, "    return 1", args="label: str = 'x'"), "scheduler.yaml": _config("{lable: y}")},
    ),
    Mistake(
        "a misspelt attribute of the arguments",
        _CHECK,
        (r"mine\.py:8.*lable",),
        {"mine.py": _plugin(_SCORE, "    return len(self.args.lable)", args="label: str = 'x'")},
    ),
    Mistake(
        "a plugin that changes a pod",
        _CHECK,
        (r"mine\.py:8: .*read-only.*change a copy",),
        {"mine.py": _plugin(_SCORE, "    pod.labels['seen'] = 'yes'", "    return 1")},
    ),
    Mistake(
        "a misspelt registration of a session plugin",
        _CHECK,
        (r"mine\.py:3.*add_queue_oder", r"add_queue_order"),
        {"mine.py": _SESSION},
    ),
    Mistake("a file that does not compile", _CHECK, (r"mine\.py:1: ",), {"mine.py": "class Mine(Plugin:\n"}),
    Mistake("an empty manifest", ("simulate", "-f", "pods.yaml"), (r"pods\.yaml",), {"pods.yaml": ""}),
    Mistake(
        "an amount below zero",
        ("simulate", "-f", "pods.yaml"),
        (r"pods\.yaml.*cpu",),
        {
            "pods.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
            "  - {name: main, image: x, resources: {requests: {cpu: -1}}}\n"
        },
    ),
    Mistake("a misspelt command", ("simulat",), (r"simulate",), code=2),
    Mistake("a misspelt option", ("up", "--nodez", "3"), (r"--nodes",), code=2),
    Mistake(
        "a kubeconfig that does not exist",
        ("explain", "pod", "p", "--kubeconfig", "nowhere.yaml"),
        (r"nowhere\.yaml: no such file",),
    ),
    Mistake(
        "a server that does not answer",
        ("explain", "pod", "p", "--kubeconfig", "closed.yaml"),
        (r"127\.0\.0\.1:1\b",),
        {
            "closed.yaml": "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: c}}]\nusers: [{name: c, user: {token: t}}]\n"
        },
    ),
)


def make(mistake: Mistake, folder: Path) -> Told:
    """Make a mistake in a directory, and return the output."""
    return make_until(mistake, folder, None)


def make_until(mistake: Mistake, folder: Path, pattern: str | None) -> Told:
    """Make a mistake with a command that keeps running, and end the command when its output matches a pattern."""
    for name, text in mistake.files.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "mooring.cli", *mistake.command]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    begun, output = time.monotonic(), folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment)
    ended = False
    while process.poll() is None and time.monotonic() - begun < _SECONDS:
        if pattern is not None and re.search(pattern, output.read_text()):
            ended = True
            break
        time.sleep(0.02)
    if process.poll() is None:
        process.terminate()
        process.wait(20)
    code = mistake.code if ended else process.returncode
    return Told(mistake, code, output.read_text(), time.monotonic() - begun)


def use_port_twice(folder: Path) -> Told:
    """Start a cluster on a port that another process uses."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        return make(Mistake("a port in use", ("up", "--port", str(port)), (rf"{port}.*in use", "another")), folder)
