"""Who may read metrics, the configuration and the decisions: whom the cluster knows and lets, asked by token."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mooring.kube import KubeError

#: Sends a request to the API server and gives the body of its answer.
Call = Callable[[str, str, bytes], Awaitable[bytes]]

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: How long an answer of the cluster is believed, and how many are.
_KEPT_SECONDS, _KEPT = 10.0, 1024


class Refusal(Exception):
    """A request that is not answered: HTTP status and what to tell."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


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


class Guard:
    """Asks the API server who a token belongs to and whether they may read a path."""

    def __init__(self, call: Call, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._call = call
        self._clock = clock
        self._users: dict[bytes, tuple[float, _User | None]] = {}
        self._allowed: dict[tuple[bytes, str, str], tuple[float, bool]] = {}

    async def check(self, authorization: str, path: str, verb: str = "get") -> None:
        """Return if the bearer of a token may read a path. Raises Refusal."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Refusal(401, "Unauthorized: send a token of the cluster (Authorization: Bearer ...)")
        key = hashlib.sha256(token.encode()).digest()
        try:
            user = await self._user(key, token)
            if user is None:
                raise Refusal(401, "Unauthorized: the cluster does not know this token")
            if not await self._may(key, user, path, verb):
                raise Refusal(403, f'Forbidden: user "{user.username}" cannot {verb} path "{path}"')
        except KubeError as error:
            raise Refusal(503, f"Unavailable: the cluster could not be asked who you are: {error}") from None

    async def _user(self, key: bytes, token: str) -> _User | None:
        known = self._users.get(key)
        now = self._clock()
        if known is not None and known[0] > now:
            return known[1]
        review = await self._review(
            _TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}, _TokenReview
        )
        user = review.status.user if review.status.authenticated else None
        _keep(self._users, key, (now + _KEPT_SECONDS, user))
        return user

    async def _may(self, key: bytes, user: _User, path: str, verb: str) -> bool:
        known = self._allowed.get((key, path, verb))
        now = self._clock()
        if known is not None and known[0] > now:
            return known[1]
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        review = await self._review(
            _ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec, _AccessReview
        )
        allowed = review.status.allowed and not review.status.denied
        _keep(self._allowed, (key, path, verb), (now + _KEPT_SECONDS, allowed))
        return allowed

    async def _review(self, target: str, version: str, kind: str, spec: dict[str, Any], model: type[Any]) -> Any:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = await self._call("POST", target, body)
        try:
            return msgspec.json.decode(answer, type=model)
        except msgspec.DecodeError as error:
            raise Refusal(503, f"Unavailable: the cluster's {kind} cannot be read: {error}") from None


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = value
