"""API errors, with the code, reason and message that Kubernetes uses."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mooring.apiserver.documents import Document


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
    """The object of a request, as messages name it."""

    group: str
    resource: str
    name: str = ""

    @property
    def qualified(self) -> str:
        """`deployments.apps`; without a group just `pods`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def details(self) -> Document:
        """The details of the Status object."""
        parts = {"name": self.name, "group": self.group, "kind": self.resource}
        return {key: value for key, value in parts.items() if value}


class FieldError(NamedTuple):
    """An error of one field of an object."""

    reason: str
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(field: str, detail: str = "") -> FieldError:
    """A missing field."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value that is not allowed."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {go_value(value)}: {detail}")


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field that must not be set or changed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_supported(field: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """A value outside a fixed set, which the message lists in order."""
    shown = ", ".join(f'"{each}"' for each in allowed)
    detail = f"Unsupported value: {go_value(value)}" + (f": supported values: {shown}" if shown else "")
    return FieldError("FieldValueNotSupported", field, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """A value that must be unique and is not."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {go_value(value)}")


def missing_reference(field: str, value: Any) -> FieldError:
    """A reference to something that does not exist."""
    return FieldError("FieldValueNotFound", field, f"Not found: {go_value(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """A value that is too long."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def go_value(value: Any) -> str:
    """Return a value as Kubernetes prints it in a field error."""
    from mooring.api.label_selectors import quote, to_json

    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (dict, list)):
        return to_json(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def bad_request(message: str) -> ApiError:
    """A request that cannot be read."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """A request without valid credentials."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(target: Target, why: str) -> ApiError:
    """A request that admission or authorization rejects."""
    if not target.name:
        return ApiError(403, "Forbidden", f"{target.qualified} is forbidden: {why}", details=target.details)
    return ApiError(403, "Forbidden", f'{target.qualified} "{target.name}" is forbidden: {why}', details=target.details)


def not_found(target: Target) -> ApiError:
    """An object that does not exist."""
    return ApiError(404, "NotFound", f'{target.qualified} "{target.name}" not found', details=target.details)


def no_such_path() -> ApiError:
    """A resource or path that does not exist."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed(verb: str, target: Target) -> ApiError:
    """A verb that the resource does not support."""
    return ApiError(
        405,
        "MethodNotAllowed",
        f"{verb} is not supported on resources of kind {target.qualified!r}".replace("'", '"'),
        details=target.details,
    )


def already_exists(target: Target) -> ApiError:
    """An object whose name is taken."""
    return ApiError(409, "AlreadyExists", f'{target.qualified} "{target.name}" already exists', details=target.details)


def conflict(target: Target, why: str) -> ApiError:
    """A change that conflicts with the current state of the object."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {target.qualified} "{target.name}": {why}',
        details=target.details,
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(causes: Sequence[Document], message: str) -> ApiError:
    """A server-side apply of fields that other managers own."""
    return ApiError(409, "Conflict", message, details={"causes": list(causes)})


def expired(message: str) -> ApiError:
    """A resource version that is no longer available."""
    return ApiError(410, "Expired", message)


def unsupported_patch() -> ApiError:
    """A patch of an unknown type."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def unnamed_failure(message: str) -> ApiError:
    """An error for which Kubernetes has no reason and responds with 500."""
    return ApiError(500, "", message)


def storage_conflict(target: Target, path: str, uid: str, actual: str) -> ApiError:
    """An object whose UID is not the one that the client expects."""
    return conflict(
        target,
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, AdditionalErrorMsg:"
        f" Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}",
    )


def unsupported_media(content_type: str, allowed: Iterable[str]) -> ApiError:
    """A body in an unsupported format."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(allowed)}"
        + (f" (got {content_type})" if content_type else ""),
    )


def not_acceptable(allowed: Iterable[str]) -> ApiError:
    """A request for a response in an unsupported format."""
    message = f"only the following media types are accepted: {', '.join(allowed)}"
    return ApiError(406, "NotAcceptable", message)


def invalid_object(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """An object with invalid fields; the message lists all of them."""
    errors = list(dict.fromkeys(errors))
    shown = str(errors[0]) if len(errors) == 1 else "[" + ", ".join(map(str, errors)) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Document = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [{"reason": each.reason, "message": each.body, "field": each.field} for each in errors]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {shown}', details=details)


def too_many_requests(message: str, *, causes: Sequence[Document] = (), retry_after: int | None = None) -> ApiError:
    """A request that the client should retry later."""
    details: Document | None = {"causes": list(causes)} if causes else None
    return ApiError(429, "TooManyRequests", message, details=details, retry_after=retry_after)


def too_large_version(wanted: int, current: int) -> ApiError:
    """A resource version that does not exist yet."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
