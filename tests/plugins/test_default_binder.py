"""DefaultBinder: what is written, and what is made of the answer."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import msgspec
import pytest

from mooring.framework import CycleState, Handle, Status
from mooring.framework.api_clients import Binding
from mooring.plugins.default_binder import DefaultBinder
from mooring.testing import make_pod


class Recorder:
    """A binder that remembers, and answers as told."""

    def __init__(self, answer: Any = None) -> None:
        self.bindings: list[Binding] = []
        self.answer = answer

    def bind(self, binding: Binding) -> Any:
        self.bindings.append(binding)
        return self.answer


POD = make_pod("web", "shop").uid("u-1").obj()


def test_writes_a_binding() -> None:
    """What goes to the pod's binding subresource."""
    binder = Recorder()
    assert DefaultBinder(None, Handle(binder=binder)).bind(CycleState(), POD, "n1") is None
    assert msgspec.to_builtins(binder.bindings[0]) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_hands_on_what_the_binder_says() -> None:
    """A status, or something to await."""
    refused = Status.error("conflict")
    assert DefaultBinder(None, Handle(binder=Recorder(refused))).bind(CycleState(), POD, "n1") == refused

    async def later() -> Status:
        return refused

    answer = DefaultBinder(None, Handle(binder=Recorder(later()))).bind(CycleState(), POD, "n1")
    assert inspect.isawaitable(answer)
    assert asyncio.run(answer) == refused


def test_a_broken_binder_is_not_hidden() -> None:
    """Raising fails the binding under the plugin's name."""

    class Broken:
        def bind(self, binding: Binding) -> None:
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        DefaultBinder(None, Handle(binder=Broken())).bind(CycleState(), POD, "n1")


def test_without_a_cluster_everything_is_bound() -> None:
    """Simulations need no binder."""
    assert DefaultBinder(None, Handle()).bind(CycleState(), POD, "n1") is None
