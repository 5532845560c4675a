"""Client credentials, reloaded when tokens and certificates are rotated."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from mooring.kube.access import Access, User
from mooring.kube.client_errors import AccessError

#: How long the content of a file is cached. A kubelet replaces a token minutes before it expires.
_FILE_PERIOD: Final = 60.0
#: The minimum length of a text that is hidden in messages. Shorter ones also occur by chance.
MIN_SECRET: Final = 4


@dataclass(frozen=True)
class Identity:
    """An Authorization header and a client certificate; either may be empty."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def hide(self, body: bytes) -> bytes:
        """Return a body of a response without the credentials, which some proxies repeat in error pages.

        Parts of such a body are logged. Objects are not, so they are returned unchanged.
        """
        secret = self.authorization.partition(" ")[2].encode("latin-1", "replace")
        if len(secret) < MIN_SECRET:
            return body
        for each in (secret, _password(self.authorization)):
            if len(each) >= MIN_SECRET and each in body:
                body = body.replace(each, b"<hidden>")
        return body


def proxy_identity(proxy: str) -> Identity:
    """Return the credentials in the address of a proxy."""
    parts = urlsplit(proxy)
    if parts.password is None:
        return Identity()
    return Identity(authorization=_basic(unquote(parts.username or ""), unquote(parts.password)))


def _password(authorization: str) -> bytes:
    """Return the password of basic authentication; empty if there is none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded).partition(b":")[2]
    except ValueError:
        return b""


class IdentitySource(Protocol):
    """The source of the identity of each request. Not thread-safe."""

    def fresh(self) -> Identity | None:
        """Return the cached identity if it is valid. Hot path."""
        ...

    async def get(self) -> Identity:
        """Return the identity, reloaded if necessary. Raises AccessError."""
        ...

    def reject(self, identity: Identity) -> None:
        """Discard an identity that the server rejected."""
        ...


class FixedIdentity:
    """An identity that never changes."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def fresh(self) -> Identity:
        """Return the identity."""
        return self._identity

    async def get(self) -> Identity:
        """Return the identity."""
        return self._identity

    def reject(self, identity: Identity) -> None:
        """Do nothing: there is no other identity."""


class FileIdentity:
    """An identity from files, which are reloaded every minute and after a rejection."""

    def __init__(self, user: User, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._user = user
        self._clock = clock
        self._identity: Identity | None = None
        self._read_at = 0.0

    def fresh(self) -> Identity | None:
        """Return the identity if it was read within the last minute."""
        if self._identity is None or self._clock() - self._read_at >= _FILE_PERIOD:
            return None
        return self._identity

    async def get(self) -> Identity:
        """Read the files. If that fails, return the previous identity."""
        known = self.fresh()
        if known is not None:
            return known
        try:
            self._identity = self._read()
        except AccessError:
            if self._identity is None:
                raise
        self._read_at = self._clock()
        return self._identity

    def reject(self, identity: Identity) -> None:
        """Discard the identity, unless it was already replaced."""
        if identity is self._identity:
            self._read_at = self._clock() - _FILE_PERIOD

    def _read(self) -> Identity:
        user = self._user
        certificate = _read_file(user.certificate_file) if user.certificate_file else user.certificate
        key = _read_file(user.key_file) if user.key_file else user.key
        return Identity(self._authorization(), certificate, key)

    def _authorization(self) -> str:
        user = self._user
        if not user.token_file:
            return authorization(user)
        try:
            token = _read_file(user.token_file).decode().strip()
        except (AccessError, UnicodeError):
            if not user.token:
                raise
            token = user.token
        if not token:
            raise AccessError(f"{user.token_file}: is empty; a token is needed")
        return f"Bearer {token}"


def identity_source(access: Access, *, clock: Callable[[], float] = time.monotonic) -> IdentitySource:
    """Return the identity source of a user. As in kubectl, an exec plugin is used only without other credentials."""
    user = access.user
    fixed = Identity(authorization(user), user.certificate, user.key)
    if user.token_file or user.certificate_file or user.key_file:
        return FileIdentity(user, clock=clock)
    if user.exec_plugin is not None and fixed == Identity():
        from mooring.kube.exec_plugin import ExecIdentity

        return ExecIdentity(user.exec_plugin, access)
    return FixedIdentity(fixed)


def authorization(user: User) -> str:
    """Return the Authorization header of a user with inline credentials."""
    if user.token:
        return f"Bearer {user.token}"
    if user.username or user.password:
        return _basic(user.username, user.password)
    return ""


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from None
