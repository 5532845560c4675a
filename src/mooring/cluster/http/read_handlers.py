"""GET requests: one object, a list, or a watch."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.conversion import convert, encode_as
from mooring.cluster.errors import bad_request
from mooring.cluster.http.api import Api
from mooring.cluster.http.request_info import RequestInfo, flag, number, selection_predicate
from mooring.cluster.http.responses import Form, json_response, negotiate, raw_response
from mooring.cluster.pagination import Page
from mooring.cluster.store import Stored, encode
from mooring.cluster.table_printer import partial_metadata, table_document, table_rows
from mooring.cluster.watch import Transform, Watcher
from mooring.late_certificates import web

#: Seconds between bookmarks.
BOOKMARK_EVERY: Final = 60.0
_LONGEST_WATCH: Final = 3600.0


def read_one(api: Api, info: RequestInfo, request: web.BaseRequest) -> web.Response:
    """Return one object, or a table with one row."""
    stored = api.registry.get(info.resource, info.namespace or "", info.name)
    return object_response(api, info.resource, stored, request)


def object_response(
    api: Api,
    resource: Resource,
    stored: Stored,
    request: web.BaseRequest,
    status: int = 200,
    warnings: Iterable[str] = (),
) -> web.Response:
    """Return an object in the form that the client accepts."""
    form = negotiate(request.headers.get("Accept", ""))
    if not form.kind:
        return raw_response(encode_as(stored, resource), status, warnings)
    document = convert(stored.document, resource)
    if form.is_metadata:
        return json_response(partial_metadata(document), status, warnings)
    version = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
    return json_response(_table(api, resource, [stored], version, request.query), status, warnings)


def _table(
    api: Api, resource: Resource, items: Iterable[Stored], metadata: Document, query: Mapping[str, str]
) -> Document:
    columns = api.mapper.kind(resource).columns
    include = query.get("includeObject") or "Metadata"
    documents = [
        each.document if resource.stored_as == "events" else convert(each.document, resource) for each in items
    ]
    return table_document(columns, table_rows(documents, columns, api.clock(), include), metadata)


def read_list(api: Api, info: RequestInfo, request: web.BaseRequest) -> web.Response:
    """Return a list of objects, or a page of it."""
    query, resource = request.query, info.resource
    form = negotiate(request.headers.get("Accept", ""))
    limit, token = number(query, "limit"), query.get("continue", "")
    if token:
        page = api.paginator.next(token, limit)
    else:
        api.paginator.check_version(query.get("resourceVersion", ""), query.get("resourceVersionMatch", ""))
        page = api.paginator.first(resource, selection_predicate(api, resource, info.namespace, query), limit)
    metadata = _list_metadata(page, counted=not (query.get("labelSelector") or query.get("fieldSelector")))
    if form.is_table:
        return json_response(_table(api, resource, page.items, metadata, query))
    if form.is_metadata:
        items = [partial_metadata(each.document) for each in page.items]
        kind = "PartialObjectMetadataList"
        body = {"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}
        return json_response(body)
    return raw_response(_list_body(resource, page, metadata))


def _list_metadata(page: Page, *, counted: bool) -> Document:
    metadata: Document = {"resourceVersion": str(page.version)}
    if page.continuation:
        metadata["continue"] = page.continuation
        if counted:
            metadata["remainingItemCount"] = page.remaining
    return metadata


def _list_body(resource: Resource, page: Page, metadata: Document) -> bytes:
    head = encode({"kind": resource.lists_as, "apiVersion": resource.group_version, "metadata": metadata})
    items = b",".join([encode_as(each, resource) for each in page.items])
    return b"".join((head[:-1], b',"items":[', items, b"]}"))


async def watch(api: Api, info: RequestInfo, request: web.BaseRequest) -> web.StreamResponse:
    """Stream changes until the client disconnects or the timeout ends."""
    query, resource = request.query, info.resource
    form = negotiate(request.headers.get("Accept", ""))
    version, initial = query.get("resourceVersion", ""), flag(query, "sendInitialEvents")
    _check_watch(query, version, initial)
    bookmarks = flag(query, "allowWatchBookmarks")
    predicate = selection_predicate(api, resource, info.namespace, query)
    if info.name:
        predicate = predicate._replace(
            fields=selection_predicate(api, resource, None, {"fieldSelector": f"metadata.name={info.name}"}).fields
        )
    stream = Watcher(resource, predicate, _transform(api, resource, form, query))
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    seconds = number(query, "timeoutSeconds") or random.uniform(_LONGEST_WATCH / 2, _LONGEST_WATCH)
    api.broadcaster.start(stream, version, initial=initial, bookmarks=bookmarks)
    try:
        await api.flush()
        await response.prepare(request)
        await _pump(api, stream, response, seconds, bookmarks=bookmarks)
        await response.write_eof()
    except (ConnectionError, asyncio.CancelledError):
        # The client has disconnected.
        pass
    finally:
        api.broadcaster.stop(stream)
    return response


def _check_watch(query: Mapping[str, str], version: str, initial: bool) -> None:
    if version and (not version.isdigit() or parse_int(version) is None):
        raise bad_request(f'invalid resource version "{version[:100]}"')
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        raise bad_request(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )


async def _pump(api: Api, stream: Watcher, response: web.StreamResponse, seconds: float, *, bookmarks: bool) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    next_bookmark = loop.time() + min(BOOKMARK_EVERY, max(seconds - 2, 1)) if bookmarks else end
    while True:
        if stream.lines:
            await response.write(stream.take())
        if stream.closed:
            return
        now = loop.time()
        if now >= end:
            return
        if bookmarks and now >= next_bookmark:
            stream.bookmark(api.broadcaster.published)
            next_bookmark = now + BOOKMARK_EVERY
            continue
        handle = loop.call_at(min(end, next_bookmark), stream.ready.set)
        try:
            await stream.ready.wait()
        finally:
            handle.cancel()
        stream.ready.clear()


def _transform(api: Api, resource: Resource, form: Form, query: Mapping[str, str]) -> Transform | None:
    if form.is_metadata:
        return partial_metadata
    if not form.is_table:
        return None
    columns, include = api.mapper.kind(resource).columns, query.get("includeObject") or "Metadata"
    sent: list[Any] = []

    def row(document: Document) -> Document:
        version = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        is_bookmark = "uid" not in document["metadata"]
        rows = [] if is_bookmark else table_rows([document], columns, api.clock(), include)
        if is_bookmark:
            rows = [{"cells": [], "object": partial_metadata(document)}]
        headers = not sent and not is_bookmark
        if headers:
            sent.append(True)
        return table_document(columns, rows, version, headers=headers)

    return row
