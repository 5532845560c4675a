"""Regular expressions of objects, matched in linear time with RE2.

A tenant chooses the patterns in CEL expressions and in the schemas of definitions, and `^(a+)+$` takes Python's engine
hours. RE2 limits the memory of a pattern. Its syntax is that of Go's package regexp, which Kubernetes uses, apart from
a few additions that are refused here.
"""

import functools
import re
from typing import Any, Final

#: Longer patterns are invalid: RE2 needs memory for them.
_MAX_LENGTH: Final = 20_000
#: RE2's names of errors with Go's, where they differ.
_RENAMED: Final = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
_ANY_BYTE: Final = re.compile(r"(?:[^\\]|\\[^CQ]|\\Q(?:(?!\\E)(?s:.))*(?:\\E)?)*?\\C")


class PatternIssue(ValueError):
    """A pattern that is not a valid regular expression, with Go's message."""


@functools.lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern. Raises PatternIssue."""
    import re2  # large, and most clusters have no patterns

    if len(pattern) > _MAX_LENGTH:
        raise PatternIssue("error parsing regexp: expression too large")
    if "\\C" in pattern and _ANY_BYTE.match(pattern):
        raise PatternIssue("error parsing regexp: invalid escape sequence: `\\C`")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        text = error.args[0] if error.args else error
        message = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        kind, _, part = message.partition(": ")
        shown = f": `{part}`" if part else ""
        raise PatternIssue(f"error parsing regexp: {_RENAMED.get(kind, kind)}{shown}") from None


def found(pattern: str, text: str) -> bool:
    """Return whether a part of the text matches. Raises PatternIssue."""
    return compile_pattern(pattern).search(text) is not None


def find_first(pattern: str, text: str) -> str:
    """Return the first match, or an empty string. Raises PatternIssue."""
    match = compile_pattern(pattern).search(text)
    return "" if match is None else str(match.group())


def find_all(pattern: str, text: str, limit: int) -> list[str]:
    """Return up to `limit` matches; all if it is negative. Raises PatternIssue."""
    result: list[str] = []
    previous_end = -1
    for match in compile_pattern(pattern).finditer(text):
        if len(result) == limit:
            break
        start, end = match.span()
        # As in Go, an empty match right after another match does not count.
        if start != end or start != previous_end:
            result.append(match.group())
        previous_end = end
    return result
