"""Kubernetes' functions on quantities, versions, patterns and named formats, and those of the authorizer."""

import base64
import binascii
import datetime
import re
from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

from mooring.api.label_validation import label_key_errors
from mooring.api.patterns import PatternIssue, find_all, find_first
from mooring.api.quantity import Quantity, QuantityError, parse_quantity
from mooring.cel import types
from mooring.cel.environment import Function, Library, Overload, function, member, plain
from mooring.cel.network_library import url_issue
from mooring.cel.string_library import quoted
from mooring.cel.types import BOOL, DOUBLE, INT, STRING, list_of, struct
from mooring.cel.values import MAX_INT, MAX_UINT, NONE, CelError, Opaque, Optional, Value, no_such_overload

# Quantities

QUANTITY: Final = struct("kubernetes.Quantity")
_FORMAT_WRONG: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_QUANTITY_ISSUES: Final = {
    "suffix": "unable to parse quantity's suffix",
    "number": "unable to parse numeric part of quantity",
}


class QuantityValue(Opaque):
    """A quantity. The result of `add` and `sub` is a pointer in Go, which `==` does not accept on its right side."""

    __slots__ = ("_cell", "pointer", "text")
    type: ClassVar = QUANTITY
    go_type: ClassVar = "cel.Quantity"
    native_type: ClassVar = "*resource.Quantity"
    constant_cost: ClassVar = True

    def __init__(self, amount: Quantity, text: str) -> None:
        self._cell = [amount]
        self.text = text
        self.pointer = False

    def __str__(self) -> str:
        return self.text

    @property
    def amount(self) -> Quantity:
        """The exact amount."""
        return self._cell[0]

    def equal(self, other: Value) -> bool | CelError:
        """Compare the values."""
        if not isinstance(other, QuantityValue) or other.pointer:
            return other if isinstance(other, CelError) else no_such_overload()
        return self.compare(other) == 0

    def compare(self, other: "QuantityValue") -> int:
        """Return -1, 0 or 1."""
        return self.amount.exceeds(other.amount) - other.amount.exceeds(self.amount)

    def plus(self, other: Quantity) -> "QuantityValue":
        """Return the sum. As upstream, a quantity that does not fit 64 bits changes itself."""
        total = self.amount.plus(other)
        result = QuantityValue(total, str(total.scaled(0)))
        result.pointer = True
        if self.amount.big:
            self._cell[0] = total
            result._cell = self._cell
        return result


def _minus(value: QuantityValue, other: Quantity) -> QuantityValue:
    """Return the difference. In 64 bits, the negative of the smallest integer is itself."""
    if other.unscaled == -MAX_INT - 1 and not other.big and not value.amount.plus(other).big:
        return value.plus(other)
    return value.plus(other._replace(unscaled=-other.unscaled))


def quantity_value(text: str) -> QuantityValue | CelError:
    """Parse a quantity."""
    if text != text.strip():
        return CelError(_FORMAT_WRONG)
    try:
        return QuantityValue(parse_quantity(text), text)
    except QuantityError as error:
        return CelError(_QUANTITY_ISSUES.get(error.part, _FORMAT_WRONG))


def _as_integer(value: QuantityValue) -> int | None:
    amount = value.amount
    if amount.big or amount.scale < 0:
        return None
    if amount.scale == 0 or amount.unscaled == 0:
        return amount.unscaled
    if amount.scale > 18:
        return None
    number = amount.unscaled * 10**amount.scale
    return number if -MAX_INT - 1 <= number <= MAX_INT else None


def _integer(value: QuantityValue) -> Value:
    number = _as_integer(value)
    return CelError("cannot convert value to integer") if number is None else number


def _approximate(value: QuantityValue) -> float:
    unscaled, scale, _ = value.amount
    base = float(unscaled) if abs(unscaled) < 2**1023 else float("inf")
    if scale == 0:
        return base
    power = 0.0 if scale < -323 else float("inf") if scale > 308 else float(f"1e{scale}")
    return base * power


def _sign(value: QuantityValue) -> int:
    return (value.amount.unscaled > 0) - (value.amount.unscaled < 0)


def _quantity_method(
    name: str, number: str, result: types.Type, call: Callable[..., Value], *more: types.Type
) -> Function:
    return member(name, number, (QUANTITY, *more), result, call)


QUANTITIES: Final = Library(
    (
        plain("quantity", "string_to_quantity", (STRING,), QUANTITY, quantity_value),
        plain(
            "isQuantity",
            "is_quantity_string",
            (STRING,),
            BOOL,
            lambda text: not isinstance(quantity_value(text), CelError),
        ),
        plain("sign", "quantity_sign", (QUANTITY,), INT, _sign),
        _quantity_method(
            "isGreaterThan", "quantity_is_greater_than", BOOL, lambda one, other: one.compare(other) == 1, QUANTITY
        ),
        _quantity_method(
            "isLessThan", "quantity_is_less_than", BOOL, lambda one, other: one.compare(other) == -1, QUANTITY
        ),
        _quantity_method("compareTo", "quantity_compare_to", INT, QuantityValue.compare, QUANTITY),
        _quantity_method("asApproximateFloat", "quantity_get_float", DOUBLE, _approximate),
        _quantity_method("asInteger", "quantity_get_int", INT, _integer),
        _quantity_method("isInteger", "quantity_is_integer", BOOL, lambda value: _as_integer(value) is not None),
        _quantity_method("add", "quantity_add", QUANTITY, lambda one, other: one.plus(other.amount), QUANTITY),
        _quantity_method("add", "quantity_add_int", QUANTITY, lambda one, number: one.plus(Quantity(number)), INT),
        _quantity_method("sub", "quantity_sub", QUANTITY, lambda one, other: _minus(one, other.amount), QUANTITY),
        _quantity_method("sub", "quantity_sub_int", QUANTITY, lambda one, number: _minus(one, Quantity(number)), INT),
    )
)

# Versions

SEMVER: Final = struct("kubernetes.Semver")
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]*", re.ASCII)


class Semver(Opaque):
    """A semantic version."""

    __slots__ = ("key", "text")
    type: ClassVar = SEMVER
    go_type: ClassVar = "cel.Semver"
    native_type: ClassVar = "semver.Version"
    constant_cost: ClassVar = True

    def __init__(self, key: "_VersionKey", text: str) -> None:
        self.key = key
        self.text = text

    def __str__(self) -> str:
        return self.text

    def equal(self, other: Value) -> bool | CelError:
        """Compare the versions without build metadata."""
        if not isinstance(other, Semver):
            return other if isinstance(other, CelError) else no_such_overload()
        return self.key == other.key

    def hashable(self) -> bool:
        """Return False: cel-go fails when it looks a version up."""
        return False

    def compare(self, other: "Semver") -> int:
        """Return -1, 0 or 1."""
        return (self.key > other.key) - (self.key < other.key)


class _VersionKey(NamedTuple):
    """The order of versions: a release comes after its pre-releases; numbers come before words."""

    major: int
    minor: int
    patch: int
    release: bool
    prerelease: tuple[tuple[bool, int, str], ...]


def _number(text: str) -> int | CelError:
    if not text:
        return CelError('strconv.ParseUint: parsing "": invalid syntax')
    number = int(text) if len(text) <= 20 else MAX_UINT + 1
    return number if number <= MAX_UINT else CelError(f'strconv.ParseUint: parsing "{text}": value out of range')


def parse_semver(text: str) -> Semver | CelError:
    """Parse a semantic version."""
    if not text:
        return CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        return CelError("No Major.Minor.Patch elements found")
    patch, plus, build = parts[2].partition("+")
    patch, dash, prerelease = patch.partition("-")
    numbers: list[int] = []
    for name, part in (("major", parts[0]), ("minor", parts[1]), ("patch", patch)):
        if not _DIGITS.fullmatch(part):
            return CelError(f"Invalid character(s) found in {name} number {quoted(part)}")
        if len(part) > 1 and part[0] == "0":
            return CelError(f"{name.capitalize()} number must not contain leading zeroes {quoted(part)}")
        number = _number(part)
        if isinstance(number, CelError):
            return number
        numbers.append(number)
    words: list[tuple[bool, int, str]] = []
    for word in prerelease.split(".") if dash else ():
        parsed = _prerelease(word)
        if isinstance(parsed, CelError):
            return parsed
        words.append(parsed)
    for word in build.split(".") if plus else ():
        if not word:
            return CelError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(word):
            return CelError(f"Invalid character(s) found in build meta data {quoted(word)}")
    return Semver(_VersionKey(numbers[0], numbers[1], numbers[2], not words, tuple(words)), text)


def _prerelease(word: str) -> tuple[bool, int, str] | CelError:
    if not word:
        return CelError("Prerelease is empty")
    if _DIGITS.fullmatch(word):
        if len(word) > 1 and word[0] == "0":
            return CelError(f"Numeric PreRelease version must not contain leading zeroes {quoted(word)}")
        number = _number(word)
        return number if isinstance(number, CelError) else (False, number, "")
    if not _IDENTIFIER.fullmatch(word):
        return CelError(f"Invalid character(s) found in prerelease {quoted(word)}")
    return True, 0, word


def _normalized(text: str) -> Semver | CelError:
    """Parse a version after dropping a leading v and leading zeroes, and adding missing parts."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part.encode()) > 1:  # upstream counts bytes
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped and stripped[0] in "0123456789" else "0" + stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            return CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


def _semver(text: str, normalize: bool = False) -> Semver | CelError:
    return _normalized(text) if normalize else parse_semver(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    return not isinstance(_semver(text, normalize), CelError)


def _signed(number: int) -> int:
    """Return an unsigned number as Go converts it to a signed one."""
    return number if number <= MAX_INT else number - 2**64


def _version_method(
    name: str, number: str, result: types.Type, call: Callable[..., Value], *more: types.Type
) -> Function:
    return member(name, number, (SEMVER, *more), result, call)


SEMVERS: Final = Library(
    (
        function(
            "semver",
            Overload("string_to_semver", (STRING,), SEMVER, _semver),
            Overload("string_bool_to_semver", (STRING, BOOL), SEMVER, _semver),
        ),
        function(
            "isSemver",
            Overload("is_semver_string", (STRING,), BOOL, _is_semver),
            Overload("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
        ),
        _version_method(
            "isGreaterThan", "semver_is_greater_than", BOOL, lambda one, other: one.compare(other) == 1, SEMVER
        ),
        _version_method("isLessThan", "semver_is_less_than", BOOL, lambda one, other: one.compare(other) == -1, SEMVER),
        _version_method("compareTo", "semver_compare_to", INT, Semver.compare, SEMVER),
        _version_method("major", "semver_major", INT, lambda version: _signed(version.key.major)),
        _version_method("minor", "semver_minor", INT, lambda version: _signed(version.key.minor)),
        _version_method("patch", "semver_patch", INT, lambda version: _signed(version.key.patch)),
    )
)

# Patterns


def _find(text: str, pattern: str) -> Value:
    try:
        return find_first(pattern, text)
    except PatternIssue as issue:
        return CelError(f"Illegal regex: {issue}")


def _find_all(text: str, pattern: str, limit: int = -1) -> Value:
    try:
        return find_all(pattern, text, limit)
    except PatternIssue as issue:
        return CelError(f"Illegal regex: {issue}")


_TEXTS: Final = list_of(STRING)

PATTERNS: Final = Library(
    (
        member("find", "string_find_string", (STRING, STRING), STRING, _find),
        member("findAll", "string_find_all_string", (STRING, STRING), _TEXTS, _find_all),
        member("findAll", "string_find_all_string_int", (STRING, STRING, INT), _TEXTS, _find_all),
    )
)

# Named formats

FORMAT: Final = struct("kubernetes.NamedFormat")
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"


class NamedFormat(Opaque):
    """A format by which `validate` checks strings."""

    __slots__ = ("errors", "name", "pattern_length")
    type: ClassVar = FORMAT
    go_type: ClassVar = "cel.Format"
    native_type: ClassVar = "cel.Format"
    constant_cost: ClassVar = True

    def __init__(self, name: str, pattern_length: int, errors: Callable[[str], list[str]]) -> None:
        self.name = name
        self.pattern_length = pattern_length
        self.errors = errors

    def equal(self, other: Value) -> bool | CelError:
        """Compare the names."""
        if not isinstance(other, NamedFormat):
            return other if isinstance(other, CelError) else no_such_overload()
        return self.name == other.name

    def hashable(self) -> bool:
        """Return False: it contains a function."""
        return False


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(text.encode()) > limit else []


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _rule(rule: str, pattern: str, *examples: str) -> str:
    """Return a message that names the pattern and examples."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_RULE: Final = _rule(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_RULE: Final = _rule(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_RULE: Final = _rule(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_LABEL_VALUE_RULE: Final = _rule(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
    " and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def _name_errors(limit: int, pattern: str, rule: str) -> Callable[[str], list[str]]:
    return lambda text: [*_too_long(text, limit), *([] if _matches(pattern, text) else [rule])]


_subdomain_errors: Final = _name_errors(253, _SUBDOMAIN, _SUBDOMAIN_RULE)
_label_1035_errors: Final = _name_errors(63, _LABEL_1035, _LABEL_1035_RULE)


def _label_errors(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not _matches(_LABEL, text):
        errors.append("must not contain dots" if _matches(_SUBDOMAIN, text) else _LABEL_RULE)
    return errors


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return a check for names to which a suffix is added: they may end with a dash."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _test(message: str, valid: Callable[[str], bool]) -> Callable[[str], list[str]]:
    return lambda text: [] if valid(text) else [message]


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year, month, day = (int(part) for part in text.split("-"))
    try:
        datetime.date(year or 400, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    if len(text) < 4:
        return False
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = re.fullmatch(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_base64(text: str) -> bool:
    if not text or not text.isascii() or len(text) % 4:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_uuid(text: str) -> bool:
    return (
        re.fullmatch(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", text, re.IGNORECASE)
        is not None
    )


def _uri_errors(text: str) -> list[str]:
    issue = url_issue(text)
    return [] if issue is None else [issue]


_FORMATS: Final = {
    "dns1123Label": NamedFormat("DNS1123Label", 30, _label_errors),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", 60, _subdomain_errors),
    "dns1035Label": NamedFormat("DNS1035Label", 30, _label_1035_errors),
    "qualifiedName": NamedFormat("QualifiedName", 60, lambda text: list(label_key_errors(text))),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", 30, _prefix(_label_errors)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", 60, _prefix(_subdomain_errors)),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", 30, _prefix(_label_1035_errors)),
    "labelValue": NamedFormat("LabelValue", 40, _name_errors(63, _LABEL_VALUE, _LABEL_VALUE_RULE)),
    "uri": NamedFormat("URI", 1103, _uri_errors),
    "uuid": NamedFormat("uuid", 70, _test("does not match the UUID format", _is_uuid)),
    "byte": NamedFormat("byte", 84, _test("invalid base64", _is_base64)),
    "date": NamedFormat("date", 71, _test("invalid date", _is_date)),
    "datetime": NamedFormat("datetime", 71, _test("invalid datetime", _is_datetime)),
}


def _validate(named: NamedFormat, text: str) -> Optional:
    errors = named.errors(text)
    return Optional(errors) if errors else NONE


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(value: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: value


FORMATS: Final = Library(
    (
        member("validate", "format-validate", (FORMAT, STRING), types.optional_of(_TEXTS), _validate),
        plain("format.named", "format-named", (STRING,), types.optional_of(FORMAT), _named),
        *(plain(f"format.{name}", f"format.{name}", (), FORMAT, _constant(value)) for name, value in _FORMATS.items()),
    )
)

# The authorizer: no device has one, but the functions are declared

_AUTHORIZER: Final = struct("kubernetes.authorization.Authorizer")
_PATH: Final = struct("kubernetes.authorization.PathCheck")
_GROUP: Final = struct("kubernetes.authorization.GroupCheck")
_RESOURCE: Final = struct("kubernetes.authorization.ResourceCheck")
_DECISION: Final = struct("kubernetes.authorization.Decision")


def _unavailable(*_: Value) -> CelError:
    return no_such_overload()


AUTHORIZATION: Final = Library(
    tuple(
        member(name, number, args, result, _unavailable)
        for name, number, args, result in (
            ("path", "authorizer_path", (_AUTHORIZER, STRING), _PATH),
            ("group", "authorizer_group", (_AUTHORIZER, STRING), _GROUP),
            ("serviceAccount", "authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER),
            ("resource", "groupcheck_resource", (_GROUP, STRING), _RESOURCE),
            ("subresource", "resourcecheck_subresource", (_RESOURCE, STRING), _RESOURCE),
            ("namespace", "resourcecheck_namespace", (_RESOURCE, STRING), _RESOURCE),
            ("name", "resourcecheck_name", (_RESOURCE, STRING), _RESOURCE),
            ("check", "pathcheck_check", (_PATH, STRING), _DECISION),
            ("check", "resourcecheck_check", (_RESOURCE, STRING), _DECISION),
            ("errored", "decision_errored", (_DECISION,), BOOL),
            ("error", "decision_error", (_DECISION,), STRING),
            ("allowed", "decision_allowed", (_DECISION,), BOOL),
            ("reason", "decision_reason", (_DECISION,), STRING),
            ("fieldSelector", "authorizer_fieldselector", (_RESOURCE, STRING), _RESOURCE),
            ("labelSelector", "authorizer_labelselector", (_RESOURCE, STRING), _RESOURCE),
        )
    )
)
