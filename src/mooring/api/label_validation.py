"""Validation of label keys and values, with the messages of Kubernetes."""

import functools
import re
from typing import Final

_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_RE: Final = re.compile(_NAME)
_VALUE_RE: Final = re.compile(_VALUE)
_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)

_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_VALUE}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


@functools.lru_cache(maxsize=4096)
def label_key_errors(key: str) -> tuple[str, ...]:
    """Return the errors in a label key."""
    parts = key.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    errors: list[str] = []
    name = parts[-1]
    if len(parts) == 2:
        errors += _prefix_errors(parts[0])
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if _NAME_RE.fullmatch(name) is None:
        errors.append(f"name part {_NAME_RULE}")
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def label_value_errors(value: str) -> tuple[str, ...]:
    """Return the errors in a label value."""
    errors = ["must be no more than 63 bytes"] if _size(value) > 63 else []
    if _VALUE_RE.fullmatch(value) is None:
        errors.append(_VALUE_RULE)
    return tuple(errors)


def is_label_key(key: str) -> bool:
    """Return whether the text is a valid label key (a qualified name)."""
    return not label_key_errors(key)


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    errors = ["prefix part must be no more than 253 bytes"] if _size(prefix) > 253 else []
    if _SUBDOMAIN_RE.fullmatch(prefix) is None:
        errors.append(f"prefix part {_SUBDOMAIN_RULE}")
    return errors


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
