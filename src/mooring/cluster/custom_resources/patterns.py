"""Regular expressions of definitions, matched in linear time with RE2.

Anyone who may create a definition chooses the pattern, and `^(a+)+$` takes Python's engine hours. RE2 has the syntax of
Go, which Kubernetes uses, and limits the memory of a pattern.
"""

import functools
from typing import Any

#: Longer patterns are invalid.
_MAX_LENGTH = 10_000


class PatternError(ValueError):
    """A pattern that is not a valid regular expression."""


@functools.lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern. Raises PatternError."""
    import re2  # large, and most clusters have no patterns

    if len(pattern) > _MAX_LENGTH:
        raise PatternError(f"it has more than {_MAX_LENGTH} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        text = error.args[0] if error.args else error
        raise PatternError(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) from None


def matches(pattern: str, text: str) -> bool:
    """Report whether a part of the text matches. Raises PatternError."""
    return compile_pattern(pattern).search(text) is not None
