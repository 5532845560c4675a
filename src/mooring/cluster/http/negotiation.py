"""Content negotiation."""

import functools
from typing import Final, NamedTuple

from mooring.cluster.errors import not_acceptable

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
