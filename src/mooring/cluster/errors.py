"""API errors, with the code, reason and message that Kubernetes uses."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError


class ApiError(Exception):
    """An error response of the API; `document` is its Status object."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Document | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    @property
    def document(self) -> Document:
        """The Status object."""
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None or self.retry_after is not None:
            status["details"] = dict(self.details or {})
        if self.retry_after is not None:
            status["details"]["retryAfterSeconds"] = self.retry_after
        status["code"] = self.code
        return status


class Target(NamedTuple):
    """The object of a request, for error messages."""

    group: str
    resource: str
    name: str = ""

    @property
    def qualified(self) -> str:
        """The resource with its group, such as `deployments.apps`; `pods` for the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def details(self) -> Document:
        """The details of the Status object."""
        parts = {"name": self.name, "group": self.group, "kind": self.resource}
        return {key: value for key, value in parts.items() if value}


def bad_request(message: str) -> ApiError:
    """Return the error for a malformed request."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """Return the error for a request without valid credentials."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(target: Target, why: str) -> ApiError:
    """Return the error for a request that admission or authorization rejects."""
    if not target.name:
        return ApiError(403, "Forbidden", f"{target.qualified} is forbidden: {why}", details=target.details)
    return ApiError(403, "Forbidden", f'{target.qualified} "{target.name}" is forbidden: {why}', details=target.details)


def not_found(target: Target) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, "NotFound", f'{target.qualified} "{target.name}" not found', details=target.details)


def no_such_path() -> ApiError:
    """Return the error for a resource or path that does not exist."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed(verb: str, target: Target) -> ApiError:
    """Return the error for a verb that the resource does not support."""
    return ApiError(
        405,
        "MethodNotAllowed",
        f"{verb} is not supported on resources of kind {target.qualified!r}".replace("'", '"'),
        details=target.details,
    )


def already_exists(target: Target) -> ApiError:
    """Return the error for a new object whose name is in use."""
    return ApiError(409, "AlreadyExists", f'{target.qualified} "{target.name}" already exists', details=target.details)


def conflict(target: Target, why: str) -> ApiError:
    """Return the error for a change that conflicts with the current state of the object."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {target.qualified} "{target.name}": {why}',
        details=target.details,
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(causes: Sequence[Document], message: str) -> ApiError:
    """Return the error for a server-side apply of fields that other managers own."""
    return ApiError(409, "Conflict", message, details={"causes": list(causes)})


def expired(message: str) -> ApiError:
    """Return the error for a resource version that is no longer available."""
    return ApiError(410, "Expired", message)


def unsupported_patch() -> ApiError:
    """Return the error for a patch of an unsupported type."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def unnamed_failure(message: str) -> ApiError:
    """Return an error with code 500 and no reason, as Kubernetes does in some cases."""
    return ApiError(500, "", message)


def storage_conflict(target: Target, path: str, uid: str, actual: str) -> ApiError:
    """Return the error for an object whose UID differs from the expected one."""
    return conflict(
        target,
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, AdditionalErrorMsg:"
        f" Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}",
    )


def unsupported_media(content_type: str, allowed: Iterable[str]) -> ApiError:
    """Return the error for a body in an unsupported format."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(allowed)}"
        + (f" (got {content_type})" if content_type else ""),
    )


def request_too_large(limit: int) -> ApiError:
    """A body with more bytes than the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def not_acceptable(allowed: Iterable[str]) -> ApiError:
    """Return the error for a request that accepts only unsupported formats."""
    message = f"only the following media types are accepted: {', '.join(allowed)}"
    return ApiError(406, "NotAcceptable", message)


def invalid_object(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Return the error for an object with invalid fields. The message lists all of them."""
    errors = list(dict.fromkeys(errors))
    shown = str(errors[0]) if len(errors) == 1 else "[" + ", ".join(map(str, errors)) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Document = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [{"reason": each.reason, "message": each.body, "field": each.field} for each in errors]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {shown}', details=details)


def too_many_requests(message: str, *, causes: Sequence[Document] = (), retry_after: int | None = None) -> ApiError:
    """Return the error for a request that the client should retry later."""
    details: Document | None = {"causes": list(causes)} if causes else None
    return ApiError(429, "TooManyRequests", message, details=details, retry_after=retry_after)


def too_large_version(wanted: int, current: int) -> ApiError:
    """Return the error for a resource version that does not exist yet."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def unavailable(message: str) -> ApiError:
    """Return the error for a server that cannot answer now."""
    return ApiError(503, "ServiceUnavailable", message, retry_after=1)
