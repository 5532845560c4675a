"""Errors of requests to an API server, grouped by how a caller handles them.

`ApiError`: the server responded with an error. `ConnectionFailed`: the request did not reach the server, so it can be
retried. `OutcomeUnknown`: the request was sent and no response arrived, so the caller must read the object to find out
whether the request was carried out.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from mooring.kube.binding_bodies import to_json
from mooring.unexpected_errors import shortened


class KubeError(Exception):
    """The base class of all errors. `outcome_unknown` means that the change may have been made."""

    outcome_unknown: bool = False


class AccessError(KubeError):
    """Invalid credentials or an invalid kubeconfig. The message has the file, the field and a remedy."""


class ConnectionFailed(KubeError):
    """The server could not be reached; nothing was sent."""


class OutcomeUnknown(KubeError):
    """The request was sent but no response arrived: it may or may not have been carried out."""

    outcome_unknown = True


class BadAnswer(OutcomeUnknown):
    """The response of the server, or of a proxy in front of it, is not that of an API server."""


NOT_LEADING: Final = "the lease has expired: another scheduler may be the leader"


class NotLeading(KubeError):
    """Nothing was sent, because another scheduler may be the leader."""


class ApiError(KubeError):
    """An error response of the server: HTTP code `status`, Kubernetes' `reason`, and a readable `message`."""

    #: The HTTP codes of this class.
    codes: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        #: Seconds to wait before a retry, if the server sent a Retry-After header.
        self.retry_after = retry_after
        #: The reasons of causes, such as `ResourceVersionTooLarge`.
        self.causes = causes
        super().__init__(message or f"{status} {reason}".strip())

    def __str__(self) -> str:
        return f"{self.message or 'no message'} ({self.status}{' ' + self.reason if self.reason else ''})"


class BadRequest(ApiError):
    """The request is invalid."""

    codes = (400, 405, 406, 415)


class Unauthorized(ApiError):
    """The server does not accept the credentials."""

    codes = (401,)


class Forbidden(ApiError):
    """The user is not authorized."""

    codes = (403,)


class NotFound(ApiError):
    """The object, or its kind, does not exist."""

    codes = (404,)


class Conflict(ApiError):
    """The object has changed, or its state does not allow the request."""

    codes = (409,)


class AlreadyExists(Conflict):
    """The object already exists. Only the reason, not the code, distinguishes this from other conflicts."""


class Gone(ApiError):
    """The resource version has expired: list again."""

    codes = (410,)


class Invalid(ApiError):
    """The object fails the server's validation."""

    codes = (422,)


class TooManyRequests(ApiError):
    """There are too many requests; this one was not carried out."""

    codes = (429,)


class ServerError(ApiError):
    """The server failed, possibly after it carried out the request."""

    outcome_unknown = True


class Unavailable(ServerError):
    """The server, or one of its dependencies, is temporarily unavailable."""

    codes = (502, 503)


class ServerTimeout(ServerError):
    """The server timed out."""

    codes = (504,)


_CLASSES: Final = {
    code: each
    for each in (
        BadRequest, Unauthorized, Forbidden, NotFound, Conflict, Gone, Invalid, TooManyRequests, Unavailable,
        ServerTimeout,
    )
    for code in each.codes
}  # fmt: skip


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """A Status object."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status: Final = msgspec.json.Decoder(Status)


def error_from_answer(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error for an unsuccessful response. The names of `headers` are lower-case."""
    try:
        status = _status.decode(to_json(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        status = Status(message=_plain(body))
    retry_after = parse_retry_after(headers.get("retry-after"))
    return _make(code, status, retry_after)


def error_from_status(raw: bytes | msgspec.Raw) -> ApiError:
    """Return the error for a Status object, such as a watch sends before it ends."""
    try:
        status = _status.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return ServerError(500, "", f"a watch ended with an error that is not a Status: {error}")
    return _make(status.code or 500, status, None)


def _make(code: int, status: Status, retry_after: float | None) -> ApiError:
    causes: tuple[str, ...] = ()
    if status.details is not None:
        causes = tuple(cause.reason for cause in status.details.causes or ())
        if retry_after is None and status.details.retry_after_seconds > 0:
            retry_after = float(status.details.retry_after_seconds)
    cls: type[ApiError] = _CLASSES.get(code, ServerError if code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        cls = AlreadyExists
    elif status.reason == "Expired":
        cls = Gone
    message = shortened(status.message, _MAX_MESSAGE)
    return cls(code, status.reason, message, retry_after=retry_after, causes=causes)


#: The maximum length of a message. Messages quote values that users chose.
_MAX_MESSAGE: Final = 1_000
#: The maximum number of digits in a Retry-After header.
_MAX_SECONDS: Final = 9


def parse_retry_after(text: str | None) -> float | None:
    """Parse a Retry-After header in seconds, the only form that API servers send."""
    text = "" if text is None else text.strip()
    # The limit of a day is longer than any delay that a server requests.
    return min(float(text), 86_400.0) if text.isascii() and text.isdigit() and len(text) <= _MAX_SECONDS else None


def _plain(body: bytes) -> str:
    text: Any = body[:300].decode("utf-8", "replace")
    return " ".join(text.split())
