"""Access and token reviews."""

from collections.abc import Callable
from typing import Final

from mooring.apiserver.documents import Document, nested_field
from mooring.cluster.auth.authentication import TokenAuthenticator
from mooring.cluster.auth.authorization import Attributes, allowed_reason, is_allowed, rules_for
from mooring.cluster.request_context import User
from mooring.cluster.store import Store


class AccessReviews:
    """The evaluator of access and token reviews."""

    def __init__(self, store: Store, tokens: TokenAuthenticator) -> None:
        self._store = store
        self._tokens = tokens

    def evaluate(self, kind: str, document: Document, user: User) -> Document:
        """Return a review with its `status`."""
        evaluators: dict[str, Callable[[Document, User], Document]] = {
            "TokenReview": self._token_review,
            "SelfSubjectReview": self._self_review,
            "SelfSubjectAccessReview": self._self_access_review,
            "SubjectAccessReview": self._access_review,
            "LocalSubjectAccessReview": self._access_review,
            "SelfSubjectRulesReview": self._rules_review,
        }
        return {**document, "status": evaluators[kind](document, user)}

    def _token_review(self, document: Document, user: User) -> Document:
        found = self._tokens.user(nested_field(document, "spec", "token") or "")
        if found is None:
            return {"user": {}, "error": "[invalid bearer token]"}
        return {
            "authenticated": True,
            "user": _user(found),
            "audiences": nested_field(document, "spec", "audiences") or [_AUDIENCE],
        }

    def _self_review(self, document: Document, user: User) -> Document:
        return {"userInfo": _user(user)}

    def _self_access_review(self, document: Document, user: User) -> Document:
        return self._decision(user, document["spec"])

    def _access_review(self, document: Document, user: User) -> Document:
        spec = document["spec"]
        asked = User(spec.get("user", ""), tuple(spec.get("groups", ())))
        return self._decision(asked, spec)

    def _decision(self, user: User, spec: Document) -> Document:
        attributes = _attributes(spec)
        if not is_allowed(self._store, user, attributes):
            return {"allowed": False}
        reason = allowed_reason(self._store, user, attributes)
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}

    def _rules_review(self, document: Document, user: User) -> Document:
        namespace = nested_field(document, "spec", "namespace") or ""
        rules = list(rules_for(self._store, user, namespace))
        if user.is_admin:
            rules.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            rules.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        return {
            "incomplete": False,
            "resourceRules": [each for each in rules if "resources" in each],
            "nonResourceRules": [each for each in rules if "nonResourceURLs" in each],
        }


_AUDIENCE: Final = "https://kubernetes.default.svc"


def _user(user: User) -> Document:
    shown: Document = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        shown["uid"] = user.uid
    return shown


def _attributes(spec: Document) -> Attributes:
    other = spec.get("nonResourceAttributes")
    if other:
        return Attributes(other.get("verb", ""), path=other.get("path", ""))
    asked = spec.get("resourceAttributes") or {}
    return Attributes(
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
