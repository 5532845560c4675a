"""Limits the nesting of JSON text.

API servers accept custom resources that are nested 10,000 levels deep, and Python's decoders stop at about 1,000. Such
levels are in fields that no scheduler reads, so they are removed, and the object can be decoded.
"""

import re
from typing import Final

#: The maximum depth. Objects of Kubernetes have fewer levels.
MAX_DEPTH: Final = 128

#: Matches brackets, and strings, which may contain brackets.
_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def is_too_deep(text: bytes, depth: int = MAX_DEPTH) -> bool:
    """Return whether JSON text is nested more than `depth` levels deep."""
    if text.count(b"[") + text.count(b"{") <= depth:
        return False
    level = 0
    for token in _TOKENS.finditer(text):
        bracket = text[token.start()]
        if bracket in b"[{":
            level += 1
            if level > depth:
                return True
        elif bracket in b"]}":
            level -= 1
    return False


def prune_json(text: bytes, depth: int = MAX_DEPTH) -> bytes:
    """Return JSON text with null in place of every value that is nested more than `depth` levels deep."""
    parts: list[bytes] = []
    level = kept = 0
    for token in _TOKENS.finditer(text):
        start = token.start()
        bracket = text[start : start + 1]
        if bracket in b"[{":
            level += 1
            if level == depth + 1:
                parts += (text[kept:start], b"null")
                kept = len(text)  # if the text ends before the value does, nothing follows
        elif bracket in b"]}":
            level -= 1
            if level == depth:
                kept = token.end()
    parts.append(text[kept:])
    return b"".join(parts)
