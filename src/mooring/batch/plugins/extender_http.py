"""Asking an extender: a JSON document is sent, and a JSON document comes back."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any, Final

import msgspec

#: What is longer is no answer.
_MOST_BYTES: Final = 10 << 20


class ExtenderFailure(Exception):
    """There is no usable answer; the message says why."""


class Replies:
    """An answer, read forgivingly: what is missing or of another kind counts as nothing."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def text(self, key: str) -> str:
        """Text, or none."""
        value = self._values.get(key)
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int:
        """A whole number, or 0."""
        value = self._values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def flag(self, key: str) -> bool:
        """Whether it is true."""
        return self._values.get(key) is True

    def numbers(self, key: str) -> dict[str, float] | None:
        """Numbers by name; None if there are none."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            return None
        return {str(name): float(each) for name, each in value.items() if isinstance(each, int | float)}

    def uids(self, key: str) -> list[str]:
        """The ``UID`` of each object of a list."""
        value = self._values.get(key)
        return [str(each["UID"]) for each in value if isinstance(each, dict) and "UID" in each] if value else []


def ask(url: str, body: dict[str, Any], seconds: float) -> Replies:
    """Send a document, and wait for the answer. Raises ExtenderFailure."""
    if not url.startswith(("http://", "https://")):
        raise ExtenderFailure(f"extender.urlPrefix: {url!r} is no http or https address")
    request = urllib.request.Request(
        url, msgspec.json.encode(body), {"Content-Type": "application/json"}, method="POST"
    )
    # Where it is, is said in the configuration; no proxy of the environment comes between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=seconds) as answer:
            data = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise ExtenderFailure(f"{url} answers with status {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ExtenderFailure(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if len(data) > _MOST_BYTES:
        raise ExtenderFailure(f"{url} answers with more than {_MOST_BYTES >> 20} MB")
    try:
        values = msgspec.json.decode(data) if data.strip() else {}
    except msgspec.DecodeError as error:
        raise ExtenderFailure(f"{url} answers with no JSON: {error}") from None
    return Replies(values if isinstance(values, dict) else {})
