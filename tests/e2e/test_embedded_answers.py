"""Three hundred requests, good and bad, to the embedded cluster and a real API server: the answers are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.embedded.asking import Asker, differences
from tests.e2e.embedded.other_cases import TABLES, other_cases
from tests.e2e.embedded.pod_cases import Case, pod_cases
from tests.e2e.embedded.process import EmbeddedProcess, read_access

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def servers(built: None) -> Iterator[tuple[Asker, Asker]]:
    """A real API server and an embedded one, both empty, in which nothing happens by itself."""
    with ControlPlane() as plane, EmbeddedProcess(controllers=False) as embedded:
        real = Asker(*read_access(plane.kubeconfig()))
        ours = Asker(*embedded.access)
        yield real, ours
        assert "Traceback" not in embedded.log


@pytest.mark.parametrize("cases", [pod_cases, other_cases])
def test_answers_are_the_same(servers: tuple[Asker, Asker], cases: Callable[[], Iterator[Case]]) -> None:
    """Bodies, codes, messages and warnings; ids, versions and times aside."""
    real, ours = servers
    found: list[str] = []
    for case in cases():
        found += _differences(real, ours, case)
    if cases is other_cases:
        for path in TABLES:
            found += _differences(real, ours, ("GET", path, None, ""), accept=_TABLE)
    assert not found, "\n".join(found)


def _differences(real: Asker, ours: Asker, case: Case, accept: str = "application/json") -> list[str]:
    method, path, body, content = case
    if method == "WAIT":
        _wait(real, path)
        return []
    options = {"content": content or "application/json", "accept": accept}
    pair = [asker.ask(method, path, body, **options) for asker in (real, ours)]
    return [f"{method} {path} {str(body)[:160]}: {each}" for each in differences(*pair)]


def _wait(asker: Asker, path: str) -> None:
    end = time.monotonic() + 20
    while asker.ask("GET", path)["status"] != 200 and time.monotonic() < end:
        time.sleep(0.1)
