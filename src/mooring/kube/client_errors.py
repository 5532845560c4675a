"""What can go wrong between us and an API server, told apart by what a caller would do about it.

Three families. `ApiError`: the server answered, and said no. `ConnectionFailed`: the request never reached it, so it
may be sent again. `OutcomeUnknown`: the request went out and no answer came, so only looking tells whether it was
carried out.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec


class KubeError(Exception):
    """Anything that goes wrong with an API server. `outcome_unknown` says that the change may have been made."""

    outcome_unknown: bool = False


class AccessError(KubeError):
    """Credentials or a kubeconfig that cannot be used; the text names file and field, and what to do."""


class ConnectionFailed(KubeError):
    """The server could not be reached; nothing was sent."""


class OutcomeUnknown(KubeError):
    """The request went out but no answer came back: it may or may not have been carried out."""

    outcome_unknown = True


class BadAnswer(OutcomeUnknown):
    """The server, or something that stands before it, answered with what is no answer of an API server."""


NOT_LEADING: Final = "the lease is not held any more: another scheduler may lead by now"


class NotLeading(KubeError):
    """Nothing was sent, because another scheduler may lead by now."""


class ApiError(KubeError):
    """The server refused: `status` is the HTTP code, `reason` Kubernetes' word for it, `message` for people."""

    #: The HTTP codes that this class, rather than another of the family, stands for.
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
        #: Seconds after which the server wants to be asked again, if it said so.
        self.retry_after = retry_after
        #: The reasons given for single fields, such as `ResourceVersionTooLarge`.
        self.causes = causes
        super().__init__(message or f"{status} {reason}".strip())

    def __str__(self) -> str:
        return f"{self.message or 'no message'} ({self.status}{' ' + self.reason if self.reason else ''})"


class BadRequest(ApiError):
    """The request itself makes no sense to the server."""

    codes = (400, 405, 406, 415)


class Unauthorized(ApiError):
    """The server does not know who we are."""

    codes = (401,)


class Forbidden(ApiError):
    """The server knows us and will not let us."""

    codes = (403,)


class NotFound(ApiError):
    """The object, or its kind, does not exist."""

    codes = (404,)


class Conflict(ApiError):
    """The object has changed meanwhile, or is in a state that forbids this."""

    codes = (409,)


class AlreadyExists(Conflict):
    """There is an object of that name already. Told from other conflicts by its reason, not by its code."""


class Gone(ApiError):
    """The version asked for is no longer kept: list again."""

    codes = (410,)


class Invalid(ApiError):
    """The object does not pass the server's checks."""

    codes = (422,)


class TooManyRequests(ApiError):
    """The server wants us to slow down; the request was not carried out."""

    codes = (429,)


class ServerError(ApiError):
    """The server failed, perhaps after having carried out the request."""

    outcome_unknown = True


class Unavailable(ServerError):
    """The server, or what it depends on, is not there for now."""

    codes = (502, 503)


class ServerTimeout(ServerError):
    """The server did not get it done in time."""

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
    """Kubernetes' answer when there is no object to answer with."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status: Final = msgspec.json.Decoder(Status)


def error_from_answer(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Make the right error of an answer that is not a success. `headers` are looked up by lower-case name."""
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        status = Status(message=_plain(body))
    retry_after = parse_retry_after(headers.get("retry-after"))
    return _make(code, status, retry_after)


def error_from_status(raw: bytes | msgspec.Raw) -> ApiError:
    """Make the right error of a Status object, such as a watch sends before it ends."""
    try:
        status = _status.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        return ServerError(500, "", f"a watch ended with something that is no Status: {error}")
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
    return cls(code, status.reason, status.message, retry_after=retry_after, causes=causes)


def parse_retry_after(text: str | None) -> float | None:
    """Read a Retry-After header; only seconds are understood, as API servers send nothing else."""
    if text is None or not text.strip().isdigit():
        return None
    return float(text)


def _plain(body: bytes) -> str:
    text: Any = body[:300].decode("utf-8", "replace")
    return " ".join(text.split())
