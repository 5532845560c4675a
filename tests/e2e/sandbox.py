"""Runs a program as a container would, with files mounted as its manifest says: `unshare -rm python sandbox.py SPEC`.

SPEC is a JSON file: {"root": an empty folder, "mounts": [{"from", "to", "readOnly"}], "command": [...], "env": {...}}.
The root is made of links into the machine's own, which is at /.host, but for the folders that something is mounted in,
and is read-only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HOST = ".host"


def main(spec_file: str) -> None:
    """Make the root, go there, and become the program."""
    spec = json.loads(Path(spec_file).read_text())
    root = Path(spec["root"])
    mount("-t", "tmpfs", "none", root)
    (root / HOST).mkdir()
    mount("--rbind", "/", root / HOST)
    for each in spec["mounts"]:
        place = root / each["to"].lstrip("/")
        for parent in reversed(list(place.relative_to(root).parents)):
            open_up(root, parent)
        if place.is_symlink():
            place.unlink()
        place.mkdir(exist_ok=True)
        mount("--bind", each["from"], place)
        if each["readOnly"]:
            mount("-o", "remount,bind,ro", place)
    mount("-o", "remount,ro", root)
    os.chroot(root)
    os.chdir("/")
    os.environ.clear()
    os.environ.update(spec["env"])
    os.execvp(spec["command"][0], spec["command"])


def open_up(root: Path, folder: Path) -> None:
    """Make a folder of the new root a real one, in which everything is a link to the machine's."""
    place = root / folder
    if place.is_dir() and not place.is_symlink() and folder != Path():
        return
    if place.is_symlink():
        place.unlink()
    place.mkdir(exist_ok=True)
    theirs = Path("/", folder)
    for name in os.listdir(theirs) if theirs.is_dir() else []:
        if not os.path.lexists(place / name):
            (place / name).symlink_to(Path("/", HOST, folder, name))


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
