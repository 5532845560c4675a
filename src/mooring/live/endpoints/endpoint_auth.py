"""Who may read metrics, the configuration and the decisions: whom the cluster knows and lets.

A client is known by its certificate or by its token, or is anonymous, as with Kubernetes' own components.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.kube import KubeError

#: Sends a request to the API server and gives the body of its answer.
Call = Callable[[str, str, bytes], Awaitable[bytes]]

T = TypeVar("T")
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: How many answers of the cluster are remembered.
_KEPT = 1024
#: As the standard library shows a client's certificate; None or empty where there is none.
PeerCertificate = Mapping[str, Any] | None


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


ANONYMOUS: Final = _User(username="system:anonymous", groups=["system:unauthenticated"])


class GuardSettings(msgspec.Struct, frozen=True):
    """What is open to everybody, and for how many seconds the cluster's answers are believed."""

    #: Paths; one that ends in ``*`` stands for all that begin so. Below a path of health come its single checks.
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


class Guard:
    """Asks the API server who a token belongs to and whether they may read a path.

    ``authenticate`` asks the first, ``authorize`` the second; by default both are the same connection.
    """

    def __init__(
        self,
        authenticate: Call,
        authorize: Call | None = None,
        settings: GuardSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticate = authenticate
        self._authorize = authorize or authenticate
        self._settings = settings or GuardSettings()
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
        """Return if a client may read a path. Raises Refusal."""
        if self.is_open(path):
            return
        scheme, _, token = authorization.partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        user = _certified(certificate)
        try:
            if user is not None:
                key = hashlib.sha256(msgspec.json.encode(user)).digest()
            elif token:
                key = hashlib.sha256(b"token " + token.encode()).digest()
                user = await self._user(key, token)
                if user is None:
                    raise Refusal(401, "Unauthorized: the cluster does not know this token")
            else:
                key, user = b"", ANONYMOUS
            if not await self._may(key, user, path, verb):
                hint = "; send a token of the cluster (Authorization: Bearer ...)" if user is ANONYMOUS else ""
                raise Refusal(403, f'Forbidden: user "{user.username}" cannot {verb} path "{path}"{hint}')
        except KubeError as error:
            raise Refusal(503, f"Unavailable: the cluster could not be asked who you are: {error}") from None

    async def _user(self, key: bytes, token: str) -> _User | None:
        known = self._users.get(key)
        now = self._clock()
        if known is not None and known[0] > now:
            return known[1]
        spec = {"token": token}
        answer = await self._authenticate("POST", _TOKEN_REVIEWS, _body(_AUTHENTICATION, "TokenReview", spec))
        review = _decoded(answer, _TokenReview)
        user = review.status.user if review.status.authenticated else None
        _keep(self._users, key, (now + self._settings.token_seconds, user))
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
        answer = await self._authorize("POST", _ACCESS_REVIEWS, _body(_AUTHORIZATION, "SubjectAccessReview", spec))
        review = _decoded(answer, _AccessReview)
        allowed = review.status.allowed and not review.status.denied
        seconds = self._settings.allowed_seconds if allowed else self._settings.denied_seconds
        _keep(self._allowed, (key, path, verb), (now + seconds, allowed))
        return allowed


def _is_check(path: str, health: str) -> bool:
    return health in ("/healthz", "/livez", "/readyz") and path.startswith(f"{health}/")


def _certified(certificate: PeerCertificate) -> _User | None:
    """Whom a certificate that was verified names: the common name, and its organizations as groups."""
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
        raise Refusal(503, f"Unavailable: what the cluster answers cannot be read: {error}") from None


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = value
