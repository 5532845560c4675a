"""BrowserSessions: how a browser, which cannot send a bearer token with a page request, authenticates.

A one-time token in a URL, or a bearer token that the user enters, is exchanged for a cookie. The cookie is random, is
stored here only as a hash, and stands for the bearer token, which is reviewed with every request.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

#: The name of the cookie. Cookies do not differ by port, so that each server needs a name of its own.
COOKIE: Final = "mooring-dashboard"
#: The maximum number of sessions and of unused links, and their lifetime in seconds.
_SESSIONS: Final = 256
_SESSION_SECONDS: Final = 12 * 3600.0
_LINK_SECONDS: Final = 24 * 3600.0


class _Entry(msgspec.Struct, frozen=True):
    bearer: str
    expires: float


class BrowserSessions:
    """The sessions of browsers, and the one-time tokens that open one."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # In the order of their expiry.
        self._links: dict[bytes, _Entry] = {}
        self._sessions: dict[bytes, _Entry] = {}

    def create_link_token(self, bearer: str = "", *, token: str = "") -> str:
        """Return a one-time token, which opens a session for a bearer token; ``token`` sets its text."""
        made = token or secrets.token_urlsafe(32)
        self._store(self._links, made, bearer, _LINK_SECONDS)
        return made

    def redeem(self, token: str) -> str | None:
        """Return the cookie of a new session for a one-time token; None if it is unknown, used or expired."""
        link = self._links.pop(_digest(token), None)
        if link is None or link.expires <= self._clock():
            return None
        return self.open(link.bearer)

    def open(self, bearer: str) -> str:
        """Return the cookie of a new session for a bearer token. If there are too many, the oldest one ends."""
        cookie = secrets.token_urlsafe(32)
        self._store(self._sessions, cookie, bearer, _SESSION_SECONDS)
        return cookie

    def bearer(self, cookie: str) -> str | None:
        """Return the bearer token of a session; None if there is no such session."""
        found = self._sessions.get(_digest(cookie))
        return None if found is None or found.expires <= self._clock() else found.bearer

    def close(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(cookie), None)

    def __len__(self) -> int:
        return len(self._sessions)

    def _store(self, entries: dict[bytes, _Entry], secret: str, bearer: str, seconds: float) -> None:
        now = self._clock()
        while entries and (len(entries) >= _SESSIONS or next(iter(entries.values())).expires <= now):
            del entries[next(iter(entries))]
        entries[_digest(secret)] = _Entry(bearer, now + seconds)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
