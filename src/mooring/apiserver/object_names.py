"""Validation of object names."""

import functools
import re
from collections.abc import Callable
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_RE: Final = re.compile(_LABEL)
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_RE: Final = re.compile(_LABEL_1035)
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_LABEL_1035}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)

NameRule = Callable[[str], tuple[str, ...]]


@functools.lru_cache(maxsize=8192)
def dns_subdomain(name: str) -> tuple[str, ...]:
    """Return the errors of a DNS subdomain, the form of most names."""
    faults = ["must be no more than 253 bytes"] if len(name) > 253 else []
    return tuple(faults if _SUBDOMAIN_RE.fullmatch(name) else [*faults, _SUBDOMAIN_RULE])


@functools.lru_cache(maxsize=8192)
def dns_label(name: str) -> tuple[str, ...]:
    """Return the errors of a DNS label, as for namespaces, containers and volumes."""
    faults = ["must be no more than 63 bytes"] if len(name) > 63 else []
    return tuple(faults if _LABEL_RE.fullmatch(name) else [*faults, _LABEL_RULE])


@functools.lru_cache(maxsize=8192)
def dns_1035_label(name: str) -> tuple[str, ...]:
    """Return the errors of a DNS label that starts with a letter, as for services."""
    faults = ["must be no more than 63 bytes"] if len(name) > 63 else []
    return tuple(faults if _LABEL_1035_RE.fullmatch(name) else [*faults, _LABEL_1035_RULE])


@functools.lru_cache(maxsize=8192)
def path_segment(name: str) -> tuple[str, ...]:
    """Return the errors of a path segment, as for roles."""
    if name in {".", ".."}:
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{each}'" for each in "/%" if each in name)
