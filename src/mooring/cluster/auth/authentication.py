"""Bearer tokens and impersonation."""

import math
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mooring.cluster.errors import Target, forbidden, unauthorized
from mooring.cluster.request_context import User
from mooring.cluster.store import Store

ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))


_PRUNE_AT: Final = 1000


class BoundObject(NamedTuple):
    """An object without which a token is invalid."""

    storage: str
    namespace: str
    name: str
    uid: str


class _Token(NamedTuple):
    user: User
    expires: float = math.inf
    bound: tuple[BoundObject, ...] = ()


class TokenAuthenticator:
    """An authenticator with the valid bearer tokens."""

    def __init__(self, admin: str, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._store = store
        self._tokens: dict[str, _Token] = {admin: _Token(ADMIN)}
        #: The number of tokens at which expired ones are removed.
        self._prune_at = _PRUNE_AT

    def add(self, token: str, user: User) -> None:
        """Add a token for a user, for tests of authorization."""
        self._tokens[token] = _Token(user)

    def issue(self, namespace: str, account: str, uid: str, seconds: float, bound: tuple[BoundObject, ...] = ()) -> str:
        """Return a new token for a service account. It ends with the account and with the objects it is bound to."""
        self._prune()
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        token = secrets.token_urlsafe(32)
        user = User(f"system:serviceaccount:{namespace}:{account}", groups, uid)
        accounts = (BoundObject("serviceaccounts", namespace, account, uid), *bound)
        self._tokens[token] = _Token(user, self._clock() + seconds, accounts)
        return token

    def _prune(self) -> None:
        if len(self._tokens) >= self._prune_at:
            self._tokens = {token: each for token, each in self._tokens.items() if self._is_valid(each)}
            self._prune_at = max(2 * len(self._tokens), _PRUNE_AT)

    def _is_valid(self, token: "_Token") -> bool:
        return token.expires >= self._clock() and all(map(self._exists, token.bound))

    def _exists(self, bound: BoundObject) -> bool:
        found = self._store.get(bound.storage, bound.namespace, bound.name)
        return found is not None and found.document["metadata"]["uid"] == bound.uid

    def user(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        found = self._tokens.get(token)
        return found.user if found is not None and self._is_valid(found) else None

    def authenticate(self, headers: Mapping[str, str]) -> User:
        """Return the user of a request by its headers. Raises ApiError."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        user = self.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        if "Impersonate-User" not in headers:
            return user
        return self._impersonated(user, headers)

    def _impersonated(self, user: User, headers: Mapping[str, str]) -> User:
        name = headers["Impersonate-User"]
        if not user.is_admin:
            raise forbidden(Target("", "users", name), f'User "{user.name}" cannot impersonate resource "users"'
                            ' in API group "" at the cluster scope')  # fmt: skip
        getall = getattr(headers, "getall", None)
        groups = tuple(getall("Impersonate-Group", ())) if getall else ()
        if name.startswith("system:serviceaccount:"):
            namespace = name.split(":")[2]
            groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(name, (*groups, "system:authenticated"))
