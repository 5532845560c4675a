"""The pinned versions and hashes of constraints.txt, for some packages and everything that they need.

pip checks hashes only if every package of a command is pinned and has a hash. constraints.txt has a line for each
package, its hashes, and comments (`# via aiohttp`) that name the packages that need it. So the lines for an environment
are found without a resolver. `make constraints` writes the file. Needs nothing but Python itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VIA = re.compile(r"#\s+(?:via\s+)?([A-Za-z0-9][A-Za-z0-9._-]*)")


def normalized(name: str) -> str:
    """Return the name of a package in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """Return the package of a requirement such as `mkdocstrings[python]>=1.0`."""
    found = _NAME.match(requirement)
    if found is None:
        raise SystemExit(f"not a requirement: {requirement!r}")
    return normalized(found[0])


def requirements(wanted: Iterable[str]) -> str:
    """Return a requirements file with these packages and all that they need, by name, version and hash."""
    lines: dict[str, list[str]] = {}
    needs: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "constraints.txt").read_text()):
        name = name_of(block)
        kept = [line for line in block.splitlines() if not line.lstrip().startswith("#")]
        lines.setdefault(name, []).append("\n".join(kept))
        for line in block.splitlines():
            if (via := _VIA.search(line)) is not None and via[1] != "via":
                needs.setdefault(normalized(via[1]), set()).add(name)
    found: set[str] = set()
    waiting = [name_of(each) for each in wanted]
    while waiting:
        name = waiting.pop()
        if name not in lines:
            raise SystemExit(f"constraints.txt has no line for {name}; run: make constraints")
        if name not in found:
            found.add(name)
            waiting += needs.get(name, ())
    return "\n".join(line for name in sorted(found) for line in lines[name]) + "\n"


def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def dependencies(*extras: str) -> list[str]:
    """Return the requirements of Mooring with some extras, `all` among them."""
    table = project()["project"]
    optional = table["optional-dependencies"]
    found = list(table["dependencies"])
    for extra in extras:
        for each in optional[extra]:
            nested = re.fullmatch(rf"{re.escape(table['name'])}\[(.*)\]", each)
            found += [each] if nested is None else [one for name in nested[1].split(",") for one in optional[name]]
    return found


def group(name: str) -> list[str]:
    """Return the packages of a dependency group (older versions of pip have no dependency groups)."""
    groups = project()["dependency-groups"]
    found: list[str] = []
    for each in groups[name]:
        found += group(each["include-group"]) if isinstance(each, dict) else [each]
    return found
