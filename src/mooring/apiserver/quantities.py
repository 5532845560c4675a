"""Canonical quantities: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`."""

import functools
from typing import Any, Final

from mooring.api.quantity import QuantityError, parse_quantity

_PATTERN_MESSAGE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


class QuantityTextError(ValueError):
    """A text that is not a quantity; the message is that of Kubernetes."""


@functools.lru_cache(maxsize=65536)
def canonical_quantity(text: Any) -> str:
    """Return a quantity as Kubernetes stores and prints it."""
    try:
        amount = parse_quantity(text)
    except (QuantityError, TypeError, AttributeError):
        raise QuantityTextError(_PATTERN_MESSAGE) from None
    written = str(text).strip()
    unscaled, scale = amount.unscaled, amount.scale
    if unscaled == 0:
        return "0"
    if written.endswith("i") and scale >= -9:
        value, rest = divmod(unscaled * 10 ** (scale + 9), 10**9)
        if abs(value) >= 1024 and not rest:
            return _binary(value)
    while unscaled % 10 == 0:
        unscaled //= 10
        scale += 1
    step = scale // 3 * 3
    unscaled *= 10 ** (scale - step)
    if "e" in written or (written.rstrip("0123456789+-").endswith("E") and written[-1].isdigit()):
        return f"{unscaled}e{step}" if step else str(unscaled)
    while step > 18:
        unscaled, step = unscaled * 1000, step - 3
    return f"{unscaled}{_DECIMAL[step]}"


def _binary(value: int) -> str:
    step = 0
    while value % 1024 == 0 and step + 1 < len(_BINARY):
        value //= 1024
        step += 1
    return f"{value}{_BINARY[step]}"
