"""A plain, blocking client of the API server for tests: dictionaries in, dictionaries out."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

Object = dict[str, Any]
T = TypeVar("T")
MERGE_PATCH: Final = "application/merge-patch+json"


class ApiFailure(Exception):
    """The server refused a request."""

    def __init__(self, status: int, body: str, request: str) -> None:
        super().__init__(f"{request}: {status} {body[:2000]}")
        self.status = status
        self.body = body


class Api:
    """One user's connection to the API server. Not to be shared between threads."""

    def __init__(self, server: str, ca: Path, token: str) -> None:
        parts = urlsplit(server)
        self._address = (parts.hostname or "", parts.port or 443)
        self._ca = ca
        self._token = token
        self._connection: http.client.HTTPSConnection | None = None

    def request(
        self, method: str, path: str, body: Object | list[Any] | None = None, content_type: str = "application/json"
    ) -> Any:
        """Send one request and decode its answer. Raises ApiFailure, or OSError where there is no server."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        # A connection that was idle may be closed by now, by a server that was started again for instance.
        for again in (self._connection is not None, False):
            try:
                status, text = self._exchange(method, path, data, headers)
                break
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not again:
                    raise error if isinstance(error, OSError) else OSError(str(error)) from None
        if status >= 300:
            raise ApiFailure(status, text, f"{method} {path}")
        return json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, path: str) -> Any:
        """Read an object or a list."""
        return self.request("GET", path)

    def items(self, path: str) -> list[Object]:
        """The objects of a list."""
        found: list[Object] = self.get(path)["items"]
        return found

    def create(self, path: str, body: Object) -> Any:
        """Create an object in a collection."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: Object) -> Any:
        """Change parts of an object (merge patch)."""
        return self.request("PATCH", path, body, MERGE_PATCH)

    def delete(self, path: str) -> None:
        """Delete an object, or every object of a collection, at once; one that is not there is fine."""
        try:
            options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            self.request("DELETE", path, {**options, "propagationPolicy": "Background"})
        except ApiFailure as failure:
            if failure.status != 404:
                raise

    def pod(self, name: str, namespace: str = "default") -> Object:
        """A pod."""
        found: Object = self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return found

    def ready(self) -> bool:
        """Whether the server answers and is ready."""
        try:
            return bool(self.request("GET", "/readyz") == "ok")
        except (OSError, ApiFailure):
            return False
        finally:
            self.close()

    def wait_for(self, what: str, look: Callable[[], T | None], timeout: float = 120.0) -> T:
        """Look again and again until there is something to see; `what` is for the message when nothing comes."""
        deadline = time.monotonic() + timeout
        for pause in _pauses():
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {timeout:g} s")
            time.sleep(pause)
        raise AssertionError  # the pauses never end

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, str]:
        connection = self._connected()
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            # Read anew each time: the server writes its certificate only when it first starts.
            context = ssl.create_default_context(cafile=str(self._ca))
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            self._connection = http.client.HTTPSConnection(*self._address, context=context, timeout=60)
        return self._connection


def _pauses() -> Iterator[float]:
    pause = 0.02
    while True:
        yield pause
        pause = min(pause * 1.3, 0.3)
