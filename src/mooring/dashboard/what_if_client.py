"""WhatIfClient: a client of the what-if service for programs.

with WhatIfClient(url, token=token).snapshot() as snapshot:
    with snapshot.transaction() as attempt:
        snapshot.run(AddNode(node=node))
        (answer,) = snapshot.run(Schedule(pod=pod, copies=50))
        if not answer.message:
            attempt.keep()
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from mooring.dashboard.what_if_service import ROOT
from mooring.dashboard.what_if_snapshots import Answers, Batch, SnapshotInfo
from mooring.simulation.snapshot import Answer, Begin, Commit, Rollback, Step
from mooring.simulation.what_if_question import Question

T = TypeVar("T")
_SECONDS = 120.0


class WhatIfError(Exception):
    """The service did not answer, or rejected the request. The message has the reason."""


class WhatIfClient:
    """A client of one service."""

    def __init__(self, url: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        self._opener = urllib.request.build_opener(*handlers, urllib.request.HTTPSHandler(context=tls))

    def ask(self, question: Question) -> dict[str, Any]:
        """Ask for the effect of changes, or how many copies fit. Raises WhatIfError."""
        return self.call("POST", ROOT, dict[str, Any], question)

    def snapshot(self) -> SnapshotClient:
        """Copy the cluster into a snapshot. Raises WhatIfError."""
        return SnapshotClient(self, self.call("POST", f"{ROOT}/snapshots", SnapshotInfo, {}))

    def call(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """Send a request and decode the answer. Raises WhatIfError."""
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(f"{self._url}{path}", data=data, headers=self._headers, method=method)
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1000).decode("utf-8", "replace").strip()
            raise WhatIfError(text or str(error)) from None
        except (OSError, msgspec.DecodeError) as error:
            raise WhatIfError(f"{self._url} does not answer: {error}") from None


class _Attempt:
    """A transaction, which is rolled back unless it is kept."""

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        """Keep the changes when the transaction ends."""
        self.kept = True


class SnapshotClient:
    """A snapshot on the service. As a context manager it is deleted at the end. All methods raise WhatIfError."""

    def __init__(self, client: WhatIfClient, info: SnapshotInfo) -> None:
        self._client = client
        self.info = info
        self._path = f"{ROOT}/snapshots/{info.id}"

    def run(self, *steps: Step) -> list[Answer]:
        """Run steps in order, in one request."""
        found = self._client.call("POST", self._path, Answers, Batch(list(steps)))
        if found.error:
            raise WhatIfError(found.error)
        return found.answers

    @contextmanager
    def transaction(self) -> Iterator[_Attempt]:
        """Try changes: they are rolled back at the end unless they are kept. Transactions can be nested."""
        self.run(Begin())
        attempt = _Attempt()
        try:
            yield attempt
        except BaseException:
            attempt.kept = False
            raise
        finally:
            self.run(Commit() if attempt.kept else Rollback())

    def delete(self) -> None:
        """Delete the snapshot."""
        self._client.call("DELETE", self._path, dict[str, Any])

    def __enter__(self) -> SnapshotClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.delete()
