"""Fixtures of the tests on a real control plane. They run only when this folder is named, as `make e2e` does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import ControlPlane, missing

FOLDER = Path(__file__).parent
pytest.register_assert_rewrite("tests.e2e.faults")
#: The control planes that run now, for what their logs say when a test fails.
_RUNNING: list[ControlPlane] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out of a run of everything: they need programs that take a quarter of an hour to build."""
    named = [Path(str(each).partition("::")[0]).resolve() for each in config.invocation_params.args]
    return None if any(each == FOLDER or FOLDER in each.parents for each in named) else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show the ends of the control plane's logs with each failure, and keep them."""
    report = yield
    if report.failed:
        for plane in _RUNNING:
            plane.keep = True
            report.sections += [(f"end of the log of {name}", text) for name, text in plane.tails().items()]
    return report


@pytest.fixture(scope="session")
def built() -> None:
    """All programs are there that tests in general need."""
    _require()


@pytest.fixture(scope="session")
def operator_built() -> None:
    """kubectl and the operator on controller-runtime are there."""
    _require("kubectl", "operator")


@pytest.fixture(scope="session")
def helm_built() -> None:
    """Helm is there."""
    _require("helm")


def _require(*names: str) -> None:
    if unbuilt := [part.name for part in missing(names)]:
        pytest.fail(f"not built yet: {', '.join(unbuilt)}; run `make controlplane` first", pytrace=False)


@pytest.fixture(scope="session")
def control_plane(built: None) -> Iterator[ControlPlane]:
    """etcd and an API server, and nothing that acts by itself: for tests that bring their own scheduler."""
    yield from running(ControlPlane())


@pytest.fixture(scope="session")
def full_control_plane(built: None) -> Iterator[ControlPlane]:
    """With controllers and fake kubelets, but without a scheduler."""
    yield from running(ControlPlane(controller_manager=True, kwok=True))


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """The bare control plane for one test, which finds it empty."""
    yield from _emptied(control_plane)


@pytest.fixture
def full_cluster(full_control_plane: ControlPlane) -> Iterator[Cluster]:
    """The control plane with controllers and fake kubelets for one test, which finds it empty."""
    yield from _emptied(full_control_plane)


def running(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Start a control plane, for a fixture; what its logs say is shown with failures."""
    with plane:
        _RUNNING.append(plane)
        try:
            yield plane
        finally:
            _RUNNING.remove(plane)


def _emptied(plane: ControlPlane) -> Iterator[Cluster]:
    cluster = Cluster(plane)
    yield cluster
    cluster.clean_up()
