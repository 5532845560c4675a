"""The flags that `mooring run` knows or explains, beside those that kube-scheduler itself lists."""

from __future__ import annotations

import re
import subprocess

from mooring.cli.flags.supported_flags import SUPPORTED_FLAGS
from mooring.cli.flags.unsupported_flags import UNSUPPORTED_FLAGS
from mooring.releases import release_named, with_gates
from tests.e2e.controlplane.parts import KUBERNETES, binary

RELEASE = release_named(KUBERNETES)


def test_every_flag_of_kube_scheduler_works_or_is_explained(built: None) -> None:
    theirs = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", _help(), re.MULTILINE)) - {"help", "version"}
    ours = {flag.name for flag in SUPPORTED_FLAGS} | {flag.name for flag in UNSUPPORTED_FLAGS}
    assert len(theirs) >= 60
    assert theirs - ours == set()


def test_the_feature_gates_are_those_of_kube_scheduler(built: None) -> None:
    gates = re.findall(r"kube:(\w+)=true\|false \(\w+ - default=(true|false)\)", _help())
    assert len(gates) > 100
    assert {name for name, _ in gates} - {"AllAlpha", "AllBeta"} <= RELEASE.gates.keys()
    for name, default in gates:
        if name != "AllBeta":
            assert with_gates(RELEASE, {name: default == "true"}) == (RELEASE, []), name


def _help() -> str:
    return subprocess.run([binary("kube-scheduler"), "--help"], capture_output=True, text=True, check=True).stdout
