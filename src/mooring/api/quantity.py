"""Quantities of Kubernetes: `500m`, `1.5Gi`, `2e3`.

Hand-written because results must equal those of Kubernetes, including rounding and overflow. As there, a quantity is
a 64-bit integer and a power of ten (`big` false) or, if that does not fit, an integer of any size (`big` true). The two
differ when a value overflows 64 bits.

Kubernetes accepts numbers and exponents of any size, and any user can write them. Here they are limited, so that every
operation takes microseconds: exponents beyond 1000 count as 1000, and a number of more than 1000 digits as the largest
64-bit integer.

Parsing is cached, because a cluster has few distinct quantities. Long texts are not cached.
"""

import functools
import math
import re
from typing import Final, Literal, NamedTuple, TypeAlias

#: A quantity in a decoded object: text or a number.
QuantityLike: TypeAlias = str | int | float

_MAX_INT64: Final = 2**63 - 1
_MIN_INT64: Final = -(2**63)
_SINGLE_STEPS: Final = frozenset({1, 2, 3, 6, 9})
_NANO: Final = -9
_MILLI: Final = -3
#: Larger exponents, and smaller negative ones, count as this one. The value in 64 bits is the same.
_MAX_EXPONENT: Final = 1_000
#: The maximum number of digits before and after the decimal point. Further decimals only affect rounding up.
_MAX_DIGITS: Final = 1_000
_MAX_DECIMALS: Final = 100
#: The longest exponent that Kubernetes parses has 19 digits, besides leading zeros.
_MAX_SUFFIX: Final = 1_000
#: Python does not format integers with more bits.
_MAX_BITS: Final = 10_000
#: Longer texts are not cached: a user could fill the memory with them.
_MAX_CACHED: Final = 64

#: Possessive, so that a long text which does not match takes linear time.
_PARTS: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")

_REMEDY: Final = "write a number with an optional suffix, such as 250m, 2, 1.5Gi or 4G"


class QuantityError(ValueError):
    """Text that is not a quantity; the message has the text and the remedy."""

    def __init__(self, message: str, *, part: Literal["format", "suffix", "number"] = "format") -> None:
        super().__init__(message)
        #: What is wrong: the text as a whole, its suffix, or its number.
        self.part = part


class Quantity(NamedTuple):
    """An exact amount: `unscaled` times ten to the power of `scale`."""

    unscaled: int
    scale: int = 0
    big: bool = False

    def scaled(self, scale: int) -> int:
        """Return the amount in units of ten to the power of `scale`, rounded away from zero as upstream does."""
        shift = self.scale - scale
        if self.big:
            return _scale_big(self.unscaled, shift)
        if shift >= 0:
            if self.unscaled == 0 or shift > 19:
                return 0
            result = self.unscaled * _power(shift)
            if _MIN_INT64 <= result <= _MAX_INT64:
                return result
            # Upstream multiplies once for common shifts, and the result wraps. For other shifts it returns 0.
            return _wrap(result) if shift in _SINGLE_STEPS else 0
        quotient, rest = divmod(abs(self.unscaled), _power(-shift))
        return (quotient + bool(rest)) * (1 if self.unscaled > 0 else -1)

    def plus(self, other: "Quantity") -> "Quantity":
        """Return the exact sum."""
        if not (self.big or other.big):
            if other.unscaled == 0:
                return self
            if self.unscaled == 0:
                return other
        scale = min(self.scale, other.scale)
        mine, theirs = self._at(scale), other._at(scale)
        total = mine + theirs
        fits = all(_MIN_INT64 <= part <= _MAX_INT64 for part in (mine, theirs, total))
        return Quantity(total, scale, self.big or other.big or not fits)

    def minus(self, other: "Quantity") -> "Quantity":
        """Return the exact difference."""
        return self.plus(Quantity(-other.unscaled, other.scale, other.big))

    def times(self, other: "Quantity") -> "Quantity":
        """Return the exact product."""
        product = self.unscaled * other.unscaled
        fits = _MIN_INT64 <= product <= _MAX_INT64
        return Quantity(product, self.scale + other.scale, self.big or other.big or not fits)

    def exceeds(self, other: "Quantity") -> bool:
        """Return whether this amount is greater."""
        if self.scale == other.scale:
            return self.unscaled > other.unscaled
        scale = min(self.scale, other.scale)
        return self._at(scale) > other._at(scale)

    def larger(self, other: "Quantity") -> "Quantity":
        """Return the greater amount, or this one if they are equal. A big operand makes the result big."""
        if not other.exceeds(self):
            return self
        return other._replace(big=True) if self.big else other

    def _at(self, scale: int) -> int:
        return self.unscaled if scale == self.scale else self.unscaled * _power(self.scale - scale)


ZERO: Final = Quantity(0)


def _power(exponent: int) -> int:
    """Return ten to a non-negative power."""
    return int(10**exponent)


def _wrap(value: int) -> int:
    """Return the low 64 bits, as Go does when a large integer becomes an int64."""
    return (value - _MIN_INT64) % 2**64 + _MIN_INT64


def _scale_big(unscaled: int, shift: int) -> int:
    """Multiply by ten to the power of `shift`; round fractions up as upstream does."""
    if shift >= 0:
        factor = _power(shift) if shift <= 18 else _MIN_INT64
        return _wrap(_wrap(unscaled) * factor)
    divisor = _power(-shift)
    if unscaled < _MAX_INT64 and shift > -19:
        # Upstream truncates toward zero and then adds one, also for negative values.
        unscaled = _wrap(unscaled)
        quotient = abs(unscaled) // divisor * (1 if unscaled >= 0 else -1)
        return _wrap(quotient + bool(unscaled % divisor))
    quotient, rest = divmod(unscaled, divisor)
    return _wrap(quotient + bool(rest))


def parse_quantity(text: QuantityLike) -> Quantity:
    """Parse a quantity exactly; a number counts as its text. Raises QuantityError."""
    return _parse(text) if type(text) is not str or len(text) <= _MAX_CACHED else _parse.__wrapped__(text)


@functools.lru_cache(maxsize=65536)
def _parse(text: QuantityLike) -> Quantity:
    if not isinstance(text, str):
        if isinstance(text, bool) or (isinstance(text, float) and not math.isfinite(text)):
            raise QuantityError(f"{text!r} is not a quantity: {_REMEDY}")
        if isinstance(text, int) and text.bit_length() > _MAX_BITS:
            return _saturated(negative=text < 0)
        text = repr(text)
    text = text.strip()
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        raise QuantityError(f"{_shown(text)} is not a quantity: {_REMEDY}")
    sign, digits, decimals, suffix = match.groups()
    number = _Number(sign == "-", digits, decimals or "")
    if len(number.digits) > _MAX_DIGITS or len(number.decimals) > _MAX_DECIMALS:
        number = number.shortened()
    if (exponent := _BINARY_SUFFIXES.get(suffix)) is not None:
        return _binary(number, exponent, text)
    if (exponent := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        return _decimal(number, exponent, text)
    written = _EXPONENT.fullmatch(suffix) if len(suffix) <= _MAX_SUFFIX else None
    exponent = None if written is None else int(written[1])
    if exponent is None or not _MIN_INT64 <= exponent <= _MAX_INT64:
        raise QuantityError(
            f"{_shown(text)} is not a quantity: unknown suffix {_shown(suffix)}; {_REMEDY}", part="suffix"
        )
    return _decimal(number, _limited(exponent), text)


def _limited(exponent: int) -> int:
    """Return the low 32 bits of an exponent, as Kubernetes uses them, within the limits."""
    exponent = (exponent + 2**31) % 2**32 - 2**31
    return max(-_MAX_EXPONENT - _MAX_DIGITS - _MAX_DECIMALS, min(exponent, _MAX_EXPONENT))


def _saturated(*, negative: bool) -> Quantity:
    return Quantity(-_MAX_INT64 if negative else _MAX_INT64, 0, big=True)


def _shown(text: str) -> str:
    """Return the text for a message, truncated if it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


class _Number(NamedTuple):
    """The digits of a quantity around its decimal point."""

    negative: bool
    digits: str
    decimals: str

    @property
    def missing(self) -> bool:
        """Whether there are no digits, which upstream reads as zero for small values."""
        return not self.digits and not self.decimals

    @property
    def significant(self) -> int:
        """The number of digits as upstream counts them: without leading zeros, but a single zero counts."""
        return max(len(self.digits.lstrip("0")), 1) + len(self.decimals)

    @property
    def unscaled(self) -> int:
        """The digits as one signed integer."""
        value = int((self.digits + self.decimals) or "0")
        return -value if self.negative else value

    @property
    def too_long(self) -> bool:
        """Whether there are more digits than the limit."""
        return len(self.digits) > _MAX_DIGITS

    def shortened(self) -> "_Number":
        """Return the number without leading zeros, and with a 1 in place of the decimals beyond the limit."""
        decimals, rest = self.decimals[:_MAX_DECIMALS], self.decimals[_MAX_DECIMALS:].strip("0")
        return _Number(self.negative, self.digits.lstrip("0") or "0", decimals + "1" if rest else decimals)


def _decimal(number: _Number, exponent: int, text: str) -> Quantity:
    if number.too_long:
        return _saturated(negative=number.negative)
    scale = exponent - len(number.decimals)
    if number.significant <= 18 and scale >= _NANO:
        return Quantity(number.unscaled, scale)
    if number.missing:
        raise QuantityError(f"{_shown(text)} is not a quantity: it has no digits; {_REMEDY}", part="number")
    return _round_to_nano(number.unscaled, scale)


def _binary(number: _Number, exponent: int, text: str) -> Quantity:
    if number.too_long:
        return _saturated(negative=number.negative)
    # Upstream's estimate of the decimal digits that a shifted number may have to fit into 64 bits.
    if not number.decimals and 15 - number.significant - exponent * 3 // 10 - 1 >= 0:
        return Quantity(number.unscaled << exponent)
    if number.missing:
        raise QuantityError(f"{_shown(text)} is not a quantity: it has no digits; {_REMEDY}", part="number")
    amount = _round_to_nano(number.unscaled << exponent, -len(number.decimals))
    limit = Quantity(_MAX_INT64, 0, big=True)
    if abs(amount.unscaled) > limit._at(min(amount.scale, 0)):
        return _saturated(negative=number.negative)
    return amount


def _round_to_nano(unscaled: int, scale: int) -> Quantity:
    """Round to nine decimals, away from zero, so that a small request does not become zero."""
    if unscaled == 0:
        return Quantity(0, scale, big=True)
    if scale >= _NANO:
        return Quantity(unscaled * _power(scale - _NANO), _NANO, big=True)
    quotient, rest = divmod(abs(unscaled), _power(_NANO - scale))
    return Quantity((quotient + bool(rest)) * (1 if unscaled > 0 else -1), _NANO, big=True)


def value(quantity: QuantityLike) -> int:
    """Return the amount in whole units, rounded away from zero."""
    return (
        _value(quantity) if type(quantity) is not str or len(quantity) <= _MAX_CACHED else _value.__wrapped__(quantity)
    )


@functools.lru_cache(maxsize=65536)
def _value(quantity: QuantityLike) -> int:
    return parse_quantity(quantity).scaled(0)


def milli_value(quantity: QuantityLike) -> int:
    """Return the amount in thousandths, as for CPU, rounded away from zero."""
    return (
        _milli(quantity) if type(quantity) is not str or len(quantity) <= _MAX_CACHED else _milli.__wrapped__(quantity)
    )


@functools.lru_cache(maxsize=65536)
def _milli(quantity: QuantityLike) -> int:
    return parse_quantity(quantity).scaled(_MILLI)


def is_quantity(text: QuantityLike) -> bool:
    """Return whether the text is a quantity."""
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def format_quantity(amount: int, *, binary: bool = False, milli: bool = False) -> str:
    """Format an integer amount as Kubernetes does: with the largest suffix that is exact.

    `binary` uses Ki, Mi, Gi (memory, storage); with `milli`, the amount is in thousandths (CPU).
    """
    if amount == 0:
        return "0"
    suffixes, base = ["", "k", "M", "G", "T", "P", "E"], 1000
    if milli:
        suffixes = ["m", *suffixes]
    elif binary and abs(amount) >= 1024:
        suffixes, base = ["", *_BINARY_SUFFIXES], 1024
    step = 0
    while amount % base == 0 and step + 1 < len(suffixes):
        amount //= base
        step += 1
    return f"{amount}{suffixes[step]}"


def is_binary_quantity(text: QuantityLike) -> bool:
    """Return whether a quantity is written with a binary suffix, such as Mi."""
    return isinstance(text, str) and text.strip()[-2:] in _BINARY_SUFFIXES


def canonical_quantity(text: QuantityLike) -> str:
    """Return a quantity as Kubernetes writes it, in its own family of suffixes: `2048Mi` becomes `2Gi`."""
    return format_like(parse_quantity(text), text)


def format_like(amount: Quantity, other: QuantityLike) -> str:
    """Return an amount as Kubernetes writes it, in the family of suffixes of another quantity."""
    if amount.unscaled == 0:
        return "0"
    if is_binary_quantity(other):
        whole = amount.scaled(0)
        if abs(whole) >= _KIBI and not (Quantity(whole).exceeds(amount) or amount.exceeds(Quantity(whole))):
            return format_quantity(whole, binary=True)
        return _decimal_text(amount, exponents=False)
    exponents = isinstance(other, str) and _EXPONENT.search(other) is not None
    return _decimal_text(amount, exponents=exponents)


_KIBI: Final = 1024
_SUFFIX_OF: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}


def _decimal_text(amount: Quantity, *, exponents: bool) -> str:
    """Format an amount with the largest power of a thousand that is exact."""
    unscaled, scale = amount.unscaled, amount.scale
    while unscaled % 10 == 0:
        unscaled //= 10
        scale += 1
    while scale % 3:
        unscaled *= 10
        scale -= 1
    if not exponents and scale in _SUFFIX_OF:
        return f"{unscaled}{_SUFFIX_OF[scale]}"
    return f"{unscaled}e{scale}" if scale else str(unscaled)
