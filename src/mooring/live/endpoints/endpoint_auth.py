"""Endpoint authentication and authorization, delegated to the API server.

A client is identified by its certificate or its token, or is anonymous, as in Kubernetes' own components.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.kube import KubeError

#: Sends a request to the API server and returns the response body.
Call = Callable[[str, str, bytes], Awaitable[bytes]]

T = TypeVar("T")
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Maximum number of cached decisions of each kind.
_CACHE_SIZE = 1024
#: A client certificate as `ssl.SSLSocket.getpeercert` returns it; None or empty if there is none.
PeerCertificate = Mapping[str, Any] | None


class HttpError(Exception):
    """An error response: HTTP status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


ANONYMOUS: Final = _User(username="system:anonymous", groups=["system:unauthenticated"])


class AuthSettings(msgspec.Struct, frozen=True):
    """Paths without authorization, and how many seconds decisions of the API server are cached."""

    #: Paths without authorization. A trailing ``*`` matches any suffix. A health path includes its individual checks.
    open_paths: tuple[str, ...] = ("/healthz", "/livez", "/readyz")
    token_seconds: float = 10.0
    allowed_seconds: float = 10.0
    denied_seconds: float = 10.0


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class EndpointAuth:
    """Authenticates and authorizes requests with TokenReviews and SubjectAccessReviews.

    ``authenticate`` sends the first, ``authorize`` the second; by default both use the same connection.
    """

    def __init__(
        self,
        authenticate: Call,
        authorize: Call | None = None,
        settings: AuthSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticate = authenticate
        self._authorize = authorize or authenticate
        self._settings = settings or AuthSettings()
        self._clock = clock
        self._users: dict[bytes, tuple[float, _User | None]] = {}
        self._allowed: dict[tuple[bytes, str, str], tuple[float, bool]] = {}

    def is_open(self, path: str) -> bool:
        """Whether everybody may read a path."""
        return any(
            path.startswith(each[:-1]) if each.endswith("*") else path == each or _is_check(path, each)
            for each in self._settings.open_paths
        )

    async def check(
        self, authorization: str, path: str, verb: str = "get", *, certificate: PeerCertificate = None
    ) -> None:
        """Return if a client may read a path. Raises HttpError."""
        if self.is_open(path):
            return
        scheme, _, token = authorization.partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        user = _certificate_user(certificate)
        try:
            if user is not None:
                key = hashlib.sha256(msgspec.json.encode(user)).digest()
            elif token:
                key = hashlib.sha256(b"token " + token.encode()).digest()
                user = await self._user(key, token)
                if user is None:
                    raise HttpError(401, "Unauthorized: the token is not valid in this cluster")
            else:
                key, user = b"", ANONYMOUS
            if not await self._is_allowed(key, user, path, verb):
                hint = "; send a token of the cluster (Authorization: Bearer ...)" if user is ANONYMOUS else ""
                raise HttpError(403, f'Forbidden: user "{user.username}" cannot {verb} path "{path}"{hint}')
        except KubeError as error:
            raise HttpError(503, f"Unavailable: the API server could not authorize the request: {error}") from None

    async def _user(self, key: bytes, token: str) -> _User | None:
        cached = self._users.get(key)
        now = self._clock()
        if cached is not None and cached[0] > now:
            return cached[1]
        spec = {"token": token}
        answer = await self._authenticate("POST", _TOKEN_REVIEWS, _body(_AUTHENTICATION, "TokenReview", spec))
        review = _decoded(answer, _TokenReview)
        user = review.status.user if review.status.authenticated else None
        _store(self._users, key, (now + self._settings.token_seconds, user))
        return user

    async def _is_allowed(self, key: bytes, user: _User, path: str, verb: str) -> bool:
        cached = self._allowed.get((key, path, verb))
        now = self._clock()
        if cached is not None and cached[0] > now:
            return cached[1]
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        answer = await self._authorize("POST", _ACCESS_REVIEWS, _body(_AUTHORIZATION, "SubjectAccessReview", spec))
        review = _decoded(answer, _AccessReview)
        allowed = review.status.allowed and not review.status.denied
        seconds = self._settings.allowed_seconds if allowed else self._settings.denied_seconds
        _store(self._allowed, (key, path, verb), (now + seconds, allowed))
        return allowed


def _is_check(path: str, health: str) -> bool:
    return health in ("/healthz", "/livez", "/readyz") and path.startswith(f"{health}/")


def _certificate_user(certificate: PeerCertificate) -> _User | None:
    """Return the user of a verified certificate: its common name, with the organizations as groups."""
    subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for field, value in subject if field == "commonName"]
    if not names:
        return None
    groups = [value for field, value in subject if field == "organizationName"]
    return _User(username=names[-1], groups=[*groups, "system:authenticated"])


def _body(version: str, kind: str, spec: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})


def _decoded(answer: bytes, model: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=model)
    except msgspec.DecodeError as error:
        raise HttpError(503, f"Unavailable: the API server's response cannot be decoded: {error}") from None


def _store(cache: dict[Any, Any], key: Any, value: Any) -> None:
    if len(cache) >= _CACHE_SIZE:
        cache.clear()
    cache[key] = value
