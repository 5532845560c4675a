"""Kubernetes' functions on IP addresses, networks and URLs, with the errors of Go's packages."""

import ipaddress
import re
from typing import ClassVar, Final

from mooring.cel import types
from mooring.cel.environment import Function, Library, Overload, member, plain
from mooring.cel.string_library import quoted
from mooring.cel.types import BOOL, INT, STRING, list_of, map_of, opaque, struct
from mooring.cel.values import CelError, Map, Opaque, Value, no_such_overload

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface

# Addresses

IP: Final = opaque("net.IP")


class IpValue(Opaque):
    """An IP address."""

    __slots__ = ("address",)
    type: ClassVar = IP
    go_type: ClassVar = "cel.IP"
    native_type: ClassVar = "netip.Addr"
    constant_cost: ClassVar = True

    def __init__(self, address: _Address) -> None:
        self.address = address

    def __str__(self) -> str:
        return str(self.address)

    def equal(self, other: Value) -> bool | CelError:
        """Compare the addresses."""
        if not isinstance(other, IpValue):
            return other if isinstance(other, CelError) else no_such_overload()
        return self.address == other.address

    def size(self) -> int:
        """Return the number of bytes."""
        return self.address.max_prefixlen // 8


class _AddressIssue(Exception):
    """A text that is no address."""

    def __init__(self, text: str, message: str, at: str = "") -> None:
        super().__init__(f"ParseAddr({quoted(text)}): {message}" + (f" (at {quoted(at)})" if at else ""))


_HEX: Final = re.compile(r"[0-9a-fA-F]*", re.ASCII)


def _ipv4_fields(text: str, part: str) -> bytes:
    fields = bytearray()
    value = digits = 0
    for index, char in enumerate(part):
        if char in "0123456789":
            if digits == 1 and value == 0:
                raise _AddressIssue(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(char)
            digits += 1
            if value > 255:
                raise _AddressIssue(text, "IPv4 field has value >255")
        elif char == ".":
            if index in {0, len(part) - 1} or part[index - 1] == ".":
                raise _AddressIssue(text, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == 3:
                raise _AddressIssue(text, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise _AddressIssue(text, "unexpected character", part[index:])
    if len(fields) < 3:
        raise _AddressIssue(text, "IPv4 address too short")
    return bytes([*fields, value])


def _ipv6_bytes(text: str) -> tuple[bytes, str]:
    """Return the bytes and the zone of an IPv6 address. Raises _AddressIssue."""
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _AddressIssue(text, "zone must be a non-empty string")
    fields = bytearray()
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis = 0
        rest = rest[2:]
        if not rest:
            return bytes(16), zone
    while len(fields) < 16:
        found = _HEX.match(rest)
        digits = found.group() if found else ""
        if len(digits) > 4:
            raise _AddressIssue(text, "each group must have 4 or less digits", rest)
        if not digits:
            raise _AddressIssue(text, "each colon-separated field must have at least one digit", rest)
        if rest[len(digits) :].startswith("."):
            if ellipsis < 0 and len(fields) != 12:
                raise _AddressIssue(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(fields) + 4 > 16:
                message = "too many hex fields to fit an embedded IPv4 at the end of the address"
                raise _AddressIssue(text, message, rest)
            fields += _ipv4_fields(text, rest)
            rest = ""
            break
        fields += int(digits, 16).to_bytes(2, "big")
        rest = rest[len(digits) :]
        if not rest:
            break
        if rest[0] != ":":
            raise _AddressIssue(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _AddressIssue(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _AddressIssue(text, "multiple :: in address", rest)
            ellipsis = len(fields)
            rest = rest[1:]
            if not rest:
                break
    if rest:
        raise _AddressIssue(text, "trailing garbage after address", rest)
    if len(fields) < 16:
        if ellipsis < 0:
            raise _AddressIssue(text, "address string too short")
        fields[ellipsis:ellipsis] = bytes(16 - len(fields))
    elif ellipsis >= 0:
        raise _AddressIssue(text, "the :: must expand to at least one field of zeros")
    return bytes(fields), zone


def _address(text: str) -> tuple[_Address, str]:
    """Parse an address and its zone. Raises _AddressIssue."""
    for char in text:
        if char == ".":
            return ipaddress.IPv4Address(_ipv4_fields(text, text)), ""
        if char == ":":
            packed, zone = _ipv6_bytes(text)
            return ipaddress.IPv6Address(packed), zone
        if char == "%":
            raise _AddressIssue(text, "missing IPv6 address")
    raise _AddressIssue(text, "unable to parse IP")


def _is_mapped(address: _Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _ip(text: str) -> IpValue | CelError:
    try:
        address, zone = _address(text)
    except _AddressIssue as issue:
        return CelError(f"IP Address {quoted(text)} parse error during conversion from string: {issue}")
    if zone:
        return CelError(f"IP address {quoted(text)} with zone value is not allowed")
    if _is_mapped(address):
        return CelError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return IpValue(address)


def _is_canonical(text: str) -> bool | CelError:
    parsed = _ip(text)
    return parsed if isinstance(parsed, CelError) else str(parsed) == text


def _is_loopback(value: IpValue) -> bool:
    return value.address.is_loopback


def _is_link_local_multicast(value: IpValue) -> bool:
    packed = value.address.packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(value: IpValue) -> bool:
    address = value.address
    if address == ipaddress.IPv4Address("255.255.255.255"):
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


_IPS: Final = (
    plain("ip", "string_to_ip", (STRING,), IP, _ip),
    member("family", "ip_family", (IP,), INT, lambda value: value.address.version),
    plain("ip.isCanonical", "ip_is_canonical", (STRING,), BOOL, _is_canonical),
    member("isUnspecified", "ip_is_unspecified", (IP,), BOOL, lambda value: value.address.is_unspecified),
    member("isLoopback", "ip_is_loopback", (IP,), BOOL, _is_loopback),
    member("isLinkLocalMulticast", "ip_is_link_local_multicast", (IP,), BOOL, _is_link_local_multicast),
    member("isLinkLocalUnicast", "ip_is_link_local_unicast", (IP,), BOOL, lambda value: value.address.is_link_local),
    member("isGlobalUnicast", "ip_is_global_unicast", (IP,), BOOL, _is_global_unicast),
    plain("isIP", "is_ip", (STRING,), BOOL, lambda text: not isinstance(_ip(text), CelError)),
    plain("string", "ip_to_string", (IP,), STRING, str),
)

# Networks

CIDR: Final = opaque("net.CIDR")


class CidrValue(Opaque):
    """A network: an address and the length of a prefix."""

    __slots__ = ("interface",)
    type: ClassVar = CIDR
    go_type: ClassVar = "cel.CIDR"
    native_type: ClassVar = "netip.Prefix"
    constant_cost: ClassVar = True

    def __init__(self, interface: _Network) -> None:
        self.interface = interface

    def __str__(self) -> str:
        return f"{self.interface.ip}/{self.length}"

    @property
    def length(self) -> int:
        """The length of the prefix."""
        return self.interface.network.prefixlen

    def equal(self, other: Value) -> bool | CelError:
        """Compare address and length."""
        if not isinstance(other, CidrValue):
            return other if isinstance(other, CelError) else no_such_overload()
        return self.interface == other.interface

    def size(self) -> int:
        """Return the number of bytes of the prefix."""
        return (self.length + 7) // 8


_BITS: Final = re.compile(r"[0-9]|[1-9][0-9]+", re.ASCII)


def _network(text: str) -> _Network | str:
    """Parse a network, or return a message."""
    prefix = f"netip.ParsePrefix({quoted(text)}): "
    host, slash, bits = text.rpartition("/")
    if not slash:
        return prefix + "no '/'"
    try:
        address, zone = _address(host)
    except _AddressIssue as issue:
        return f"{prefix}{issue}"
    if zone:
        return prefix + "IPv6 zones cannot be present in a prefix"
    if not _BITS.fullmatch(bits) or len(bits) > 18:
        return f"{prefix}bad bits after slash: {quoted(bits)}"
    if int(bits) > address.max_prefixlen:
        return prefix + "prefix length out of range"
    if isinstance(address, ipaddress.IPv4Address):
        return ipaddress.IPv4Interface((address, int(bits)))
    return ipaddress.IPv6Interface((address, int(bits)))


def _cidr(text: str) -> CidrValue | CelError:
    prefix = "network address parse error during conversion from string: "
    parsed = _network(text)
    if isinstance(parsed, str):
        return CelError(prefix + prefix + parsed)
    if _is_mapped(parsed.ip):
        return CelError(f"{prefix}IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return CidrValue(parsed)


def _contains_ip(cidr: CidrValue, other: IpValue) -> bool:
    return cidr.interface.version == other.address.version and other.address in cidr.interface.network


def _contains_ip_text(cidr: CidrValue, text: str) -> bool | CelError:
    parsed = _ip(text)
    return no_such_overload() if isinstance(parsed, CelError) else _contains_ip(cidr, parsed)


def _contains_cidr(cidr: CidrValue, other: CidrValue) -> bool:
    return (
        cidr.interface.version == other.interface.version
        and cidr.length <= other.length
        and other.interface.ip in cidr.interface.network
    )


def _contains_cidr_text(cidr: CidrValue, text: str) -> bool | CelError:
    parsed = _cidr(text)
    return parsed if isinstance(parsed, CelError) else _contains_cidr(cidr, parsed)


def _masked(cidr: CidrValue) -> CidrValue:
    network = cidr.interface.network
    return CidrValue(type(cidr.interface)((network.network_address, network.prefixlen)))


_CIDRS: Final = (
    plain("cidr", "string_to_cidr", (STRING,), CIDR, _cidr),
    member("containsIP", "cidr_contains_ip_string", (CIDR, STRING), BOOL, _contains_ip_text),
    member("containsIP", "cidr_contains_ip_ip", (CIDR, IP), BOOL, _contains_ip),
    member("containsCIDR", "cidr_contains_cidr_string", (CIDR, STRING), BOOL, _contains_cidr_text),
    member("containsCIDR", "cidr_contains_cidr", (CIDR, CIDR), BOOL, _contains_cidr),
    member("ip", "cidr_ip", (CIDR,), IP, lambda cidr: IpValue(cidr.interface.ip)),
    member("prefixLength", "cidr_prefix_length", (CIDR,), INT, lambda cidr: cidr.length),
    member("masked", "cidr_masked", (CIDR,), CIDR, _masked),
    plain("isCIDR", "is_cidr", (STRING,), BOOL, lambda text: not isinstance(_cidr(text), CelError)),
    plain("string", "cidr_to_string", (CIDR,), STRING, str),
)

# URLs

URL: Final = struct("kubernetes.URL")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_PATH_BYTES: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_RAW_PATH_BYTES: Final = _UNRESERVED | frozenset(b"!'()*$&+,/:;=@[]%")
_HOST_BYTES: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)


class _UrlIssue(Exception):
    """A text that is no URL."""


class UrlValue(Opaque):
    """A URL, in its parts."""

    __slots__ = ("fragment", "host", "opaque", "path", "query", "raw_path", "scheme", "text", "user")
    type: ClassVar = URL
    go_type: ClassVar = "cel.URL"
    native_type: ClassVar = "*url.URL"
    constant_cost: ClassVar = True

    def __init__(self, text: str) -> None:
        self.text = text
        self.scheme = self.opaque = self.user = self.host = self.raw_path = self.query = self.fragment = ""
        self.path = b""

    def __str__(self) -> str:
        start = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            start += self.opaque
        else:
            if self.host or self.user:
                start += f"//{self.user + '@' if self.user else ''}{self.host}"
            start += self.escaped_path()
        return start + (f"?{self.query}" if self.query else "") + (f"#{self.fragment}" if self.fragment else "")

    def equal(self, other: Value) -> bool | CelError:
        """Compare the texts."""
        if not isinstance(other, UrlValue):
            return other if isinstance(other, CelError) else no_such_overload()
        return str(self) == str(other)

    def escaped_path(self) -> str:
        """Return the path with escapes, as written if that is valid."""
        if self.path == b"*":
            return "*"
        if all(byte in _RAW_PATH_BYTES for byte in self.raw_path.encode()):
            return self.raw_path
        return "".join(chr(byte) if byte in _PATH_BYTES else f"%{byte:02X}" for byte in self.path)


def _unescaped(text: str, *, host: bool = False, query: bool = False) -> bytes:
    """Replace escapes. Raises _UrlIssue."""
    data = text.encode()
    result = bytearray()
    position = 0
    while position < len(data):
        byte = data[position]
        if byte == ord("%"):
            digits = data[position + 1 : position + 3]
            shown = data[position : position + 3].decode("utf-8", "replace")
            if len(digits) < 2 or not all(chr(digit) in "0123456789abcdefABCDEF" for digit in digits):
                raise _UrlIssue(f"invalid URL escape {quoted(shown)}")
            value = int(digits, 16)
            if host and value < 0x80 and shown != "%25":
                raise _UrlIssue(f"invalid URL escape {quoted(shown)}")
            result.append(value)
            position += 3
            continue
        if host and byte < 0x80 and byte not in _HOST_BYTES:
            raise _UrlIssue(f"invalid character {quoted(chr(byte))} in host name")
        result.append(ord(" ") if query and byte == ord("+") else byte)
        position += 1
    return bytes(result)


def _host(scheme: str, host: str) -> str:
    """Check a host with an optional port. Raises _UrlIssue."""
    bracket = host.rfind("[")
    if bracket > 0:
        raise _UrlIssue("invalid IP-literal")
    if bracket == 0:
        end = host.rfind("]")
        if end < 0:
            raise _UrlIssue("missing ']' in host")
        port = host[end + 1 :]
        if not _PORT.fullmatch(port):
            raise _UrlIssue(f"invalid port {quoted(port)} after host")
        name = _unescaped(host[1:end], host=True).decode("utf-8", "replace")
        try:
            address, _ = _address(name)
        except _AddressIssue as issue:
            raise _UrlIssue(f"invalid host: {issue}") from None
        if address.version == 4:
            raise _UrlIssue("invalid IP-literal")
        return f"[{name}]{port}"
    colon = host.find(":") if scheme in {"http", "https"} else host.rfind(":")
    if colon >= 0 and not _PORT.fullmatch(host[colon:]):
        raise _UrlIssue(f"invalid port {quoted(host[colon:])} after host")
    return _unescaped(host, host=True).decode("utf-8", "replace")


def _split_scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match is not None:
        return match[1].lower(), text[match.end() :]
    if text.startswith(":"):
        raise _UrlIssue("missing protocol scheme")
    return "", text


def _parse_url(text: str, *, request: bool) -> UrlValue:
    """Parse a URL. Raises _UrlIssue."""
    url = UrlValue(text)
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise _UrlIssue("net/url: invalid control character in URL")
    if request and not text:
        raise _UrlIssue("empty url")
    if text == "*":
        url.path = b"*"
        return url
    url.scheme, rest = _split_scheme(text)
    rest, _, url.query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if request:
            raise _UrlIssue("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _UrlIssue("first path segment in URL cannot contain colon")
    if (url.scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, at, host = authority.rpartition("@")
        url.host = _host(url.scheme, host)
        if at:
            if not _USER.fullmatch(user):
                raise _UrlIssue("net/url: invalid userinfo")
            _unescaped(user)
            url.user = user
    url.path = _unescaped(rest)
    url.raw_path = rest
    return url


def url_issue(text: str) -> str | None:
    """Return why a text is no URL for a request, or None."""
    try:
        _parse_url(text, request=True)
    except _UrlIssue as issue:
        return f"parse {quoted(text)}: {issue}"
    return None


def _url(text: str) -> UrlValue | CelError:
    issue = url_issue(text)
    if issue is None:
        main, _, fragment = text.partition("#")
        try:
            url = _parse_url(main, request=False)
            _unescaped(fragment)
        except _UrlIssue as problem:
            issue = f"parse {quoted(text if fragment and not str(problem) else main)}: {problem}"
        else:
            url.fragment = fragment
            return url
    return CelError(f"URL parse error during conversion from string: {issue}")


def _hostname(url: UrlValue) -> str:
    host = url.host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host.rpartition(":")[0] if ":" in host else host


def _port(url: UrlValue) -> str:
    return url.host[url.host.rfind("]") + 1 :].rpartition(":")[2] if ":" in url.host[url.host.rfind("]") + 1 :] else ""


def _query(url: UrlValue) -> Map:
    values: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            name, content = _unescaped(key, query=True), _unescaped(value, query=True)
        except _UrlIssue:
            continue
        values.setdefault(name.decode("utf-8", "replace"), []).append(content.decode("utf-8", "replace"))
    result = Map()
    for name_text, items in values.items():
        result[name_text] = items
    return result


def _url_method(name: str, number: str, call: object, result: types.Type = STRING) -> Function:
    assert callable(call)
    return Function(name, [Overload(number, (URL,), result, call, member=True)])


_URLS: Final = (
    plain("url", "string_to_url", (STRING,), URL, _url),
    _url_method("getScheme", "url_get_scheme", lambda url: url.scheme),
    _url_method("getHost", "url_get_host", lambda url: url.host),
    _url_method("getHostname", "url_get_hostname", _hostname),
    _url_method("getPort", "url_get_port", _port),
    _url_method("getEscapedPath", "url_get_escaped_path", UrlValue.escaped_path),
    _url_method("getQuery", "url_get_query", _query, map_of(STRING, list_of(STRING))),
    plain("isURL", "is_url_string", (STRING,), BOOL, lambda text: url_issue(text) is None),
)

NETWORK: Final = Library((*_URLS, *_IPS, *_CIDRS), (IP, CIDR))
