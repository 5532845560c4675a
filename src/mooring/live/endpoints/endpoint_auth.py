"""Endpoint authentication and authorization, delegated to the API server.

A client is identified by its certificate or its token, or is anonymous, as in Kubernetes' own components.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

from mooring.kube import KubeError

#: Sends a request to the API server and returns the response body.
Call = Callable[[str, str, bytes], Coroutine[Any, Any, bytes]]
#: Runs a call in the event loop of the connections to the API server.
ReviewIn = Callable[[Callable[[], Coroutine[Any, Any, bytes]]], Awaitable[bytes]]

T = TypeVar("T")
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: The maximum number of cached decisions of each kind.
_CACHE_SIZE = 1024
#: The maximum number of concurrent reviews. The last ones are reserved for clients that have authenticated before, so
#: that clients with invented tokens do not lock them out.
_REVIEWS, _RESERVED = 10, 4
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
    """The paths without authorization, and how many seconds decisions of the API server are cached."""

    #: The paths without authorization. A trailing ``*`` matches any suffix. A health path includes its checks.
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
    kind: Literal["TokenReview"]
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessReview(msgspec.Struct):
    kind: Literal["SubjectAccessReview"]
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class EndpointAuth:
    """Authentication and authorization of requests with TokenReviews and SubjectAccessReviews.

    ``authenticate`` sends the first, ``authorize`` the second; by default both use the same connection. Decisions are
    cached, and identical reviews are combined. A request that needs one review too many is rejected at once.
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
        # Each with the time at which it expires. Rejections have their own caches: they do not displace the others.
        self._users: dict[bytes, tuple[float, _User]] = {}
        self._rejected: dict[bytes, float] = {}
        self._allowed: dict[tuple[bytes, str, str], float] = {}
        self._denied: dict[tuple[bytes, str, str], float] = {}
        self._reviews: dict[object, asyncio.Task[Any]] = {}

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no authorization."""
        return any(
            path.startswith(each[:-1]) if each.endswith("*") else path == each or _is_check(path, each)
            for each in self._settings.open_paths
        )

    async def check(
        self,
        authorization: str,
        path: str,
        verb: str = "get",
        *,
        certificate: PeerCertificate = None,
        review_in: ReviewIn | None = None,
    ) -> None:
        """Check that a client may read a path. Raises HttpError.

        Call this in one event loop. ``review_in`` sends reviews in another one.
        """
        if self.is_open(path):
            return
        scheme, _, token = authorization.partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if not token.isascii():
            raise HttpError(401, "Unauthorized: the token is not valid in this cluster")
        user = _certificate_user(certificate)
        try:
            if user is not None:
                key = hashlib.sha256(msgspec.json.encode(user)).digest()
            elif token:
                key = hashlib.sha256(b"token " + token.encode()).digest()
                user = await self._user(key, token, review_in or _here)
                if user is None:
                    raise HttpError(401, "Unauthorized: the token is not valid in this cluster")
            else:
                key, user = b"", ANONYMOUS
            if not await self._is_allowed(key, user, path, verb, review_in or _here):
                hint = "; send a token of the cluster (Authorization: Bearer ...)" if user is ANONYMOUS else ""
                raise HttpError(403, f'Forbidden: user "{user.username}" cannot {verb} path "{path}"{hint}')
        except KubeError as error:
            raise HttpError(503, f"Unavailable: the API server could not authorize the request: {error}") from None

    async def _user(self, key: bytes, token: str, review_in: ReviewIn) -> _User | None:
        now = self._clock()
        known = self._users.get(key)
        if known is not None and known[0] > now:
            return known[1]
        if self._rejected.get(key, now) > now:
            return None

        async def review() -> _User | None:
            body = _body(_AUTHENTICATION, "TokenReview", {"token": token})
            answer = await review_in(lambda: self._authenticate("POST", _TOKEN_REVIEWS, body))
            status = _decoded(answer, _TokenReview).status
            expires = now + self._settings.token_seconds
            if status.authenticated:
                _store(self._users, key, (expires, status.user))
                return status.user
            self._users.pop(key, None)
            _store(self._rejected, key, expires)
            return None

        return await self._review(key, review, is_known=known is not None)

    async def _is_allowed(self, key: bytes, user: _User, path: str, verb: str, review_in: ReviewIn) -> bool:
        question = (key, path, verb)
        now = self._clock()
        if self._allowed.get(question, now) > now:
            return True
        if self._denied.get(question, now) > now:
            return False
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }

        async def review() -> bool:
            body = _body(_AUTHORIZATION, "SubjectAccessReview", spec)
            answer = await review_in(lambda: self._authorize("POST", _ACCESS_REVIEWS, body))
            status = _decoded(answer, _AccessReview).status
            if status.allowed and not status.denied:
                _store(self._allowed, question, now + self._settings.allowed_seconds)
                return True
            _store(self._denied, question, now + self._settings.denied_seconds)
            return False

        return await self._review(question, review, is_known=user is not ANONYMOUS)

    async def _review(self, question: object, send: Callable[[], Coroutine[Any, Any, T]], *, is_known: bool) -> T:
        """Return the result of a review, shared with all who wait for the same one. Raises HttpError."""
        review = self._reviews.get(question)
        if review is None:
            if len(self._reviews) >= (_REVIEWS if is_known else _REVIEWS - _RESERVED):
                raise HttpError(429, "Too many requests: the API server is still reviewing others; try again later")
            review = self._reviews[question] = asyncio.create_task(send())

            def done(task: asyncio.Task[T]) -> None:
                del self._reviews[question]
                if not task.cancelled():
                    task.exception()  # Its clients may be gone.

            review.add_done_callback(done)
        return cast(T, await asyncio.shield(review))


async def _here(call: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
    return await call()


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
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HttpError(503, f"Unavailable: the API server's response cannot be decoded: {error}") from None


def _store(cache: dict[Any, Any], key: Any, value: Any) -> None:
    cache.pop(key, None)
    if len(cache) >= _CACHE_SIZE:
        del cache[next(iter(cache))]  # the oldest
    cache[key] = value
