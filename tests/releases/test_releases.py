"""The emulated releases: which one a version means, and what differs between them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mooring
from mooring.api.devices import DeviceClass, DeviceTaintRule
from mooring.live.custom import CustomInformers
from mooring.releases import RELEASES, V1_36, V1_37, ReleaseError, release_for_server, release_named

SOURCES = Path(mooring.__file__).parent


@pytest.mark.parametrize("text", ["1.37", "kube=1.37", "v1.37", "1.37.1"])
def test_a_version_names_a_release(text: str) -> None:
    assert release_named(text) is V1_37


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1.35", "kube-scheduler 1.35 cannot be emulated; use 1.36 or 1.37"),
        ("2.0", "'2.0' is not a version; use 1.36 or 1.37"),
        ("mooring=1.36", "'mooring=1.36' is not a version; use 1.36 or 1.37"),
    ],
)
def test_other_versions_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ReleaseError, match=f"^{re.escape(problem)}$"):
        release_named(text)


@pytest.mark.parametrize(("minor", "version"), [(32, "1.36"), (36, "1.36"), (37, "1.37"), (40, "1.37")])
def test_a_server_gets_the_nearest_release(minor: int, version: str) -> None:
    assert release_for_server(minor).version == version


def test_the_releases_are_in_order() -> None:
    minors = [int(release.version.partition(".")[2]) for release in RELEASES]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    assert all(release.reference.startswith(f"v{release.version}.") for release in RELEASES)


def test_plugins_ask_only_for_gates_that_exist() -> None:
    known = {gate for release in RELEASES for gate in release.gates}
    pattern = re.compile(r'release\.enabled\(\s*"([^"]+)"')
    asked = {name for file in SOURCES.rglob("*.py") for name in pattern.findall(file.read_text())}
    assert asked
    assert asked <= known


def test_the_version_is_compared_in_no_other_place() -> None:
    """A difference between releases is a field of Release or a feature gate, not a condition in a plugin."""
    pattern = re.compile(r"release\.version\s*[<>=!]=?|V1_3[0-9]\b")
    allowed = {SOURCES / "batch" / "kube_plugins.py", SOURCES / "cli" / "run.py"}
    found = [
        file
        for file in SOURCES.rglob("*.py")
        if file.parent.name != "releases" and file not in allowed and pattern.search(file.read_text())
    ]
    assert not found


def test_the_counts_of_gates_are_those_of_kube_scheduler() -> None:
    def count(release: mooring.releases.Release) -> dict[str, int]:
        defaults = list(release.gates.values())
        return {default: defaults.count(default) for default in dict.fromkeys(defaults)}

    assert count(V1_37) == {"on": 113, "off": 69, "locked on": 65, "locked off": 4}
    assert "CustomCPUCFSQuotaPeriod" in V1_36.gates
    assert "CPUCFSQuotaPeriod" not in V1_36.gates


def test_release_1_36_reads_taint_rules_in_their_beta_version() -> None:
    made = [
        CustomInformers(None, lambda _changes: None, known=(), drop=lambda _kind: None, versions=each.api_versions)  # type: ignore[arg-type]
        for each in (V1_36, V1_37)
    ]
    paths = [each._resource(DeviceTaintRule).path() for each in made]
    assert paths == [f"/apis/resource.k8s.io/{version}/devicetaintrules" for version in ("v1beta2", "v1")]
    assert made[0]._resource(DeviceClass).version == "v1"
