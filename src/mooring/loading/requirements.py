"""Requirements files of plugins. They are checked when a plugin is loaded; nothing is installed.

The file of ``nodenumber.py`` is ``nodenumber.requirements.txt``. A package has ``requirements.txt`` in its folder.
"""

from __future__ import annotations

import operator
import re
import sys
from pathlib import Path

from mooring.loading.load_errors import Fault, PluginLoadError

_LINE = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^]]*\])?\s*\(?(?P<versions>[^;#()]*)\)?\s*(?P<marker>;.*)?$"
)
_CLAUSE = re.compile(r"^(?P<sign>===|==|!=|~=|>=|<=|>|<)\s*(?P<version>[0-9A-Za-z.*+!_-]+)$")
_COMPARE = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt
}  # fmt: skip
_RELEASE = re.compile(r"^v?(?:\d+!)?(?P<release>\d+(?:\.\d+)*)[._-]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview|dev)?")


def requirements_file(path: Path) -> Path:
    """Return the path of a plugin's requirements file, which need not exist."""
    return path / "requirements.txt" if path.is_dir() else path.with_suffix(".requirements.txt")


def check_requirements(path: Path) -> None:
    """Compare a plugin's requirements with the installed packages. Raises PluginLoadError with all unmet ones."""
    file = requirements_file(path)
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    faults = [
        Fault(str(file), number, problem)
        for number, line in enumerate(lines, start=1)
        if (problem := unmet(line.strip())) is not None
    ]
    if faults:
        raise PluginLoadError(faults)


def unmet(requirement: str) -> str | None:
    """Return why a line of a requirements file is not met; None if it is met, empty, or an option of pip."""
    text = requirement.split(" #", 1)[0].strip()
    if not text or text.startswith(("#", "-")):
        return None
    match = _LINE.match(text)
    if match is None:
        return f"{text!r} is not a requirement; write for example  scikit-learn>=1.5"
    if match["marker"]:
        return None  # markers are not evaluated; the import fails if the requirement applies here
    name, versions = match["name"], match["versions"].strip()
    remedy = f"install it: {sys.executable} -m pip install '{text}'"
    import importlib.metadata  # few plugins have requirements, and it takes long to import

    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"requires {text}, which is not installed; {remedy}"
    problem = misfit(installed, versions)
    if problem is not None:
        return problem
    return None if fits(installed, versions) else f"requires {text}, but {name} {installed} is installed; {remedy}"


def misfit(installed: str, versions: str) -> str | None:
    """Return why version specifiers are invalid, or None."""
    for clause in filter(None, (each.strip() for each in versions.split(","))):
        if _CLAUSE.match(clause) is None:
            return f"{clause!r} is not a version specifier; write for example  >=1.5,<2"
    return None if _RELEASE.match(installed) else f"the installed version {installed!r} cannot be compared"


def fits(installed: str, versions: str) -> bool:
    """Return whether a version matches specifiers such as ``>=1.2,<2``."""
    clauses = [each.strip() for each in versions.split(",") if each.strip()]
    return all(_holds(installed, match["sign"], match["version"]) for each in clauses if (match := _CLAUSE.match(each)))


def _holds(installed: str, sign: str, wanted: str) -> bool:
    if sign == "===":
        return installed == wanted
    if wanted.endswith(".*"):
        prefix = _release(wanted[:-2])
        same = _release(installed)[: len(prefix)] == prefix
        return same if sign == "==" else not same
    have, want = _ordered(installed), _ordered(wanted)
    if sign == "~=":
        prefix = _release(wanted)[:-1]
        return have >= want and _release(installed)[: len(prefix)] == prefix
    return bool(_COMPARE[sign](have, want))


def _release(version: str) -> tuple[int, ...]:
    match = _RELEASE.match(version)
    return tuple(int(part) for part in match["release"].split(".")) if match else ()


def _ordered(version: str) -> tuple[tuple[int, ...], int]:
    """Return the sort key of a version: the release without trailing zeros, and 0 for a prerelease."""
    release = list(_release(version))
    while release and release[-1] == 0:
        release.pop()
    match = _RELEASE.match(version)
    return tuple(release), 0 if match is not None and match["pre"] else 1
