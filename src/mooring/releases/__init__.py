"""The releases of kube-scheduler that Mooring emulates: ``v1_36.py`` has the oldest, ``v1_37.py`` what 1.37 changed.

To add a release, declare its changes in a module like ``v1_37.py`` and append it to `RELEASES`. A new kind of
difference is a new field of `Release` whose default is the old behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.releases.gates import GateError, check_gates
from mooring.releases.release import Release
from mooring.releases.v1_36 import V1_36
from mooring.releases.v1_37 import V1_37

__all__ = [
    "NEWEST",
    "RELEASES",
    "V1_36",
    "V1_37",
    "GateError",
    "Release",
    "ReleaseError",
    "release_for_server",
    "release_named",
    "with_gates",
]

#: The supported releases, oldest first.
RELEASES: Final = (V1_36, V1_37)
#: The release to emulate without a cluster.
NEWEST: Final = RELEASES[-1]

_VERSION: Final = re.compile(r"(?:kube=)?v?1\.([0-9]{1,3})(?:\.[0-9]+)?")


class ReleaseError(ValueError):
    """A version that cannot be emulated; the message has the reason and the remedy."""


def release_named(text: str) -> Release:
    """Return the release of an ``--emulated-version``, such as ``1.36`` or ``kube=1.36``. Raises ReleaseError.

    An empty text is the newest release.
    """
    if not text:
        return NEWEST
    known = " or ".join(each.version for each in RELEASES)
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ReleaseError(f"{text!r} is not a version; use {known}")
    for release in RELEASES:
        if release.version == f"1.{found[1]}":
            return release
    raise ReleaseError(f"kube-scheduler 1.{found[1]} cannot be emulated; use {known}")


def release_for_server(minor: int) -> Release:
    """Return the release for an API server 1.``minor``: the same one, or the nearest one that is supported."""
    return min(RELEASES, key=lambda release: abs(int(release.version.partition(".")[2]) - minor))


def with_gates(release: Release, wanted: Mapping[str, bool]) -> tuple[Release, list[str]]:
    """Return a release with feature gates set, and notes about those without effect. Raises GateError."""
    later = {gate for each in RELEASES[RELEASES.index(_plain(release)) + 1 :] for gate in each.gates}
    changes, notes = check_gates(wanted, release.gates, release.stages, version=release.version, later=later)
    return msgspec.structs.replace(release, gate_changes=changes), notes


def _plain(release: Release) -> Release:
    return next(each for each in RELEASES if each.version == release.version)
