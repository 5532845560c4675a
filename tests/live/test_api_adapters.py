"""Bindings whose answer is lost: what became of them is found out, not guessed."""

from __future__ import annotations

import random

import pytest

from mooring.api import ObjectMeta, Pod, PodSpec
from mooring.framework.api_clients import Binding
from mooring.kube import Conflict, ConnectionFailed, Forbidden, KubeError, NotFound, OutcomeUnknown, Unavailable
from mooring.live import api_adapters
from mooring.live.api_adapters import ApiBinder

HERE = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"), spec=PodSpec(node_name="here"))
THERE = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"), spec=PodSpec(node_name="there"))
NOWHERE = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
ANOTHER = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="v"), spec=PodSpec(node_name="here"))


class Client:
    """Answers a bind with an error, and looks with what was planned."""

    def __init__(self, error: KubeError | None, looks: list[Pod | KubeError]) -> None:
        self.random = random.Random(0)
        self.error = error
        self.looks = looks

    async def bind(self, pod: object, node: str, annotations: object = None) -> None:
        if self.error is not None:
            raise self.error

    async def get(self, kind: object, name: str, *, namespace: str) -> Pod:
        found = self.looks.pop(0)
        if isinstance(found, KubeError):
            raise found
        return found


@pytest.mark.parametrize(
    ("retries", "error", "failures", "sent", "bound"),
    [
        (False, Unavailable(503), 1, 1, False),
        (True, Unavailable(503), 1, 2, True),
        (True, Unavailable(503), 3, 4, True),
        (True, Unavailable(503), 9, 4, False),
        (True, Conflict(409), 9, 1, False),
        (True, NotFound(404), 9, 1, False),
    ],
)
async def test_a_bind_that_a_failing_server_did_not_carry_out_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, retries: bool, error: KubeError, failures: int, sent: int, bound: bool
) -> None:
    """As since 1.37."""
    calls = 0

    class Failing(Client):
        async def bind(self, pod: object, node: str, annotations: object = None) -> None:
            nonlocal calls
            calls += 1
            if calls <= failures:
                raise error

    async def at_once(_seconds: float) -> None:
        return None

    monkeypatch.setattr(api_adapters.asyncio, "sleep", at_once)
    binder = ApiBinder(Failing(None, [NOWHERE] * 9), retries=retries)  # type: ignore[arg-type]  # a stand-in
    status = await binder.bind(Binding.of(NOWHERE, "here"))
    assert (calls, status is None) == (sent, bound)


@pytest.mark.parametrize(
    ("error", "looks", "bound"),
    [
        (None, [], True),
        (OutcomeUnknown("?"), [HERE], True),
        (OutcomeUnknown("?"), [NOWHERE], False),
        (OutcomeUnknown("?"), [THERE], False),
        (OutcomeUnknown("?"), [ANOTHER], False),
        (OutcomeUnknown("?"), [NotFound(404)], False),
        # The server is away for a while: it is asked until it answers.
        (Unavailable(503), [ConnectionFailed("down"), Unavailable(503), OutcomeUnknown("?"), HERE], True),
        (Unavailable(503), [ConnectionFailed("down"), NOWHERE], False),
        # One that has just started refuses everybody; one that goes on doing so means it.
        (OutcomeUnknown("?"), [Forbidden(403), HERE], True),
        (OutcomeUnknown("?"), [Forbidden(403)] * 9, False),
        # A request that was sent twice on the way conflicts with itself.
        (Conflict(409), [HERE], True),
        (Conflict(409), [THERE], False),
        # Surely not carried out: nothing to look for.
        (ConnectionFailed("down"), [], False),
        (NotFound(404), [], False),
    ],
)
async def test_what_became_of_it(
    monkeypatch: pytest.MonkeyPatch, error: KubeError | None, looks: list[Pod | KubeError], bound: bool
) -> None:
    async def at_once(seconds: float) -> None:
        pass

    monkeypatch.setattr(api_adapters.asyncio, "sleep", at_once)
    client = Client(error, list(looks))
    binding = Binding.of(NOWHERE, "here")
    status = await ApiBinder(client).bind(binding)  # type: ignore[arg-type]  # a stand-in
    assert (status is None) == bound
    assert not client.looks
