"""HTTP responses, and the negotiation of their content type."""

import functools
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mooring.cluster.errors import ApiError, not_acceptable
from mooring.cluster.store import encode
from mooring.late_certificates import web

_HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


def raw_response(body: bytes, status: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    """Return a response with encoded JSON."""
    response = web.Response(body=body, status=status, headers=_HEADERS)
    for each in warnings:
        text = each.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def json_response(document: Any, status: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    """Return a response with a document."""
    return raw_response(encode(document), status, warnings)


def error_response(error: ApiError) -> web.Response:
    """Return an error response."""
    response = json_response(error.document, error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


JSON: Final = "application/json"
_JSON_NAMES: Final = frozenset({JSON, "application/*", "*/*", ""})


class Form(NamedTuple):
    """The form of a response: objects, a Table, or metadata only."""

    kind: str = ""
    group: str = ""
    version: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the response is a Table."""
        return self.kind == "Table"

    @property
    def is_metadata(self) -> bool:
        """Whether the response has metadata only."""
        return self.kind in {"PartialObjectMetadata", "PartialObjectMetadataList"}


PLAIN: Final = Form()
_TRANSFORMS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


@functools.lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """Return the first supported form in an Accept header."""
    for part in accept.split(","):
        media, *parameters = (each.strip() for each in part.split(";"))
        options = dict(each.partition("=")[::2] for each in parameters)
        if media not in _JSON_NAMES:
            continue
        wanted = options.get("as", "")
        if not wanted:
            return PLAIN
        if wanted in _TRANSFORMS and options.get("g") == "meta.k8s.io" and options.get("v") == "v1":
            return Form(wanted, options["g"], options["v"])
    raise not_acceptable([JSON])


@functools.lru_cache(maxsize=256)
def wants_aggregated_discovery(accept: str) -> bool:
    """Return whether a client accepts aggregated discovery."""
    for part in accept.split(","):
        options = dict(each.strip().partition("=")[::2] for each in part.split(";")[1:])
        if options.get("as") == "APIGroupDiscoveryList" and options.get("v") == "v2":
            return True
        if not options:
            return False
    return False
