"""Bearer tokens and impersonation."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

from mooring.cluster.errors import Target, forbidden, unauthorized
from mooring.cluster.request_context import User

ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class TokenAuthenticator:
    """An authenticator with the valid bearer tokens."""

    def __init__(self, admin: str, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._users: dict[str, tuple[User, float]] = {admin: (ADMIN, float("inf"))}

    def add(self, token: str, user: User) -> None:
        """Add a token for a user, for tests of authorization."""
        self._users[token] = (user, float("inf"))

    def issue(self, namespace: str, account: str, uid: str, seconds: float) -> str:
        """Return a new token for a service account."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        token = secrets.token_urlsafe(32)
        user = User(f"system:serviceaccount:{namespace}:{account}", groups, uid)
        self._users[token] = (user, self._clock() + seconds)
        return token

    def user(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        found = self._users.get(token)
        if found is None or found[1] < self._clock():
            return None
        return found[0]

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
