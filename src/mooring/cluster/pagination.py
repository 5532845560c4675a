"""Lists of objects, filtered by selectors and split into consistent pages."""

import base64
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from mooring.api.label_selectors import parse_int
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import bad_request, expired, too_large_version
from mooring.cluster.selectors import SelectionPredicate
from mooring.cluster.store import Store, Stored
from mooring.unexpected_errors import shortened

#: The maximum number of unfinished lists that are cached, and the time in seconds.
_KEPT: Final = 256
_KEPT_FOR: Final = 300.0
#: The length to which values in messages are truncated.
_MAX_TEXT: Final = 100

_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)


class Page(NamedTuple):
    """A part of a list."""

    items: list[Stored]
    version: int
    continuation: str
    remaining: int


class _Rest(NamedTuple):
    items: list[Stored]
    version: int
    until: float


class Paginator:
    """A paginator that caches the remaining pages of lists until clients read them."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._rests: OrderedDict[str, _Rest] = OrderedDict()

    def first(self, resource: Resource, predicate: SelectionPredicate, limit: int) -> Page:
        """Return the first page, or the whole list if there is no limit."""
        found = self._store.objects(resource.stored_as, predicate.namespace)
        items = [each for each in found if predicate.matches(each.document)] if predicate.selects else list(found)
        return self._page(items, self._store.version, limit)

    def next(self, token: str, limit: int) -> Page:
        """Return the page for a continue token."""
        try:
            key = msgspec.json.decode(base64.urlsafe_b64decode(token))["key"]
        except (ValueError, KeyError, TypeError, msgspec.DecodeError):
            raise bad_request(
                "invalid continue token: continue key is not valid: start the list again without it"
            ) from None
        rest = self._rests.get(key)
        if rest is None or rest.until < self._clock():
            raise expired(_EXPIRED)
        return self._page(rest.items, rest.version, limit)

    def _page(self, items: list[Stored], version: int, limit: int) -> Page:
        if not limit or len(items) <= limit:
            return Page(items, version, "", 0)
        key = secrets.token_urlsafe(9)
        self._rests[key] = _Rest(items[limit:], version, self._clock() + _KEPT_FOR)
        while len(self._rests) > _KEPT:
            self._rests.popitem(last=False)
        token = base64.urlsafe_b64encode(msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "key": key}))
        return Page(items[:limit], version, token.decode(), len(items) - limit)

    def check_version(self, wanted: str, match: str) -> None:
        """Raise ApiError for a version that does not exist yet, or for an exact version that has expired."""
        if not wanted or wanted == "0":
            return
        version = parse_int(wanted) if wanted.isdigit() else None
        if version is None:
            shown = shortened(wanted, _MAX_TEXT)
            raise bad_request(
                f'invalid resource version: resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing'
                f' "{shown}": invalid syntax'
            )
        current = self._store.version
        if version > current:
            raise too_large_version(version, current)
        if match == "Exact" and version != current:
            raise expired(f"The resourceVersion for the provided list is too old: {wanted} (current: {current})")
