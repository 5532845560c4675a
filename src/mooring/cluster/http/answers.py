"""HTTP responses."""

from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from mooring.apiserver.documents import Document
from mooring.cluster.errors import ApiError
from mooring.cluster.store import encode

_HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


def answer(body: bytes, status: int = 200, warnings: Iterable[str] = (), content_type: str = "") -> web.Response:
    """Return a response with encoded JSON."""
    response = web.Response(body=body, status=status, headers=_HEADERS)
    if content_type:
        response.headers["Content-Type"] = content_type
    for each in warnings:
        text = each.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def answer_document(document: Any, status: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    """Return a response with a document."""
    return answer(encode(document), status, warnings)


def answer_error(error: ApiError) -> web.Response:
    """Return an error response."""
    response = answer_document(error.document, error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def success(code: int = 200, details: Document | None = None) -> Document:
    """Return a Status object for a success."""
    status: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code != 200:
        status["code"] = code
    return status
