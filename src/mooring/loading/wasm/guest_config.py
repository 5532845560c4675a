"""The configuration of a WebAssembly guest: its arguments, its entry in the configuration, and its module."""

from __future__ import annotations

import hashlib
import re
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.api.quantity import QuantityError, value
from mooring.api.yaml_nodes import line_of
from mooring.config.document import Document
from mooring.config.durations import parse_duration
from mooring.loading.load_errors import Fault, PluginLoadError
from mooring.logs import get_logger

if TYPE_CHECKING:
    import http.client

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_SCHEMES: Final = ("file://", "http://", "https://")


class GuestArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `pluginConfig[].args` of a guest: those of kube-scheduler-wasm-extension, and Mooring's limits."""

    #: The URL of the module: `file://` (relative to the working directory), `http://` or `https://`.
    guest_url: str = msgspec.field(name="guestURL")
    #: Passed to the guest unchanged.
    guest_config: str = msgspec.field(name="guestConfig", default="")
    #: The minimum severity of the guest's messages that is logged: 0 info, 1 warning, 2 error, 3 fatal.
    log_severity: int = msgspec.field(name="logSeverity", default=0)
    #: The guest's command line.
    arguments: tuple[str, ...] = msgspec.field(name="args", default=())
    #: The same, as kube-scheduler-wasm-extension spells it.
    go_arguments: tuple[str, ...] = msgspec.field(name="Args", default=())
    #: The expected checksum. A module with another checksum is rejected.
    sha256: str = ""
    #: The time limit of one call.
    time_limit: str = msgspec.field(name="timeLimit", default="2s")
    #: The memory limit of an instance.
    memory_limit: str = msgspec.field(name="memoryLimit", default="256Mi")

    def __post_init__(self) -> None:
        if not self.guest_url.startswith(_SCHEMES):
            raise ValueError(f"guestURL {self.guest_url!r} must begin with file://, http:// or https://")
        if not 0 <= self.log_severity <= 3:
            raise ValueError(f"logSeverity is {self.log_severity}; it must be 0 (info) to 3 (fatal)")
        if self.sha256 and not _DIGEST.fullmatch(self.sha256.lower()):
            raise ValueError("sha256 must be 64 hexadecimal digits, as sha256sum prints them")
        if self.seconds <= 0:
            raise ValueError(f"timeLimit {self.time_limit!r} must be positive")
        try:
            enough = self.memory_bytes >= 1 << 16
        except QuantityError as error:
            raise ValueError(f"memoryLimit: {error}") from None
        if not enough:
            raise ValueError(f"memoryLimit {self.memory_limit!r} is less than one page of memory (64Ki)")

    @property
    def digest(self) -> str:
        """The required checksum without prefix; "" if there is none."""
        match = _DIGEST.fullmatch(self.sha256.lower())
        return match[1] if match else ""

    @property
    def seconds(self) -> float:
        """The time limit in seconds."""
        return parse_duration(self.time_limit) / 1e9

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return value(self.memory_limit)

    @property
    def argv(self) -> tuple[str, ...]:
        """The guest's command line."""
        return self.arguments or self.go_arguments


class ConfiguredGuest(msgspec.Struct, frozen=True):
    """A guest in a configuration, with its location."""

    name: str
    args: Mapping[str, Any]
    source: str
    path: str
    line: int

    @property
    def url(self) -> Any:
        """The URL of the module."""
        return self.args["guestURL"]

    def fault(self, message: str) -> Fault:
        """Return an error of the guest at its location in the configuration."""
        return Fault(self.source, self.line, f"{self.path}: {message}")


def is_guest(args: object) -> bool:
    """Return whether the arguments are those of a guest."""
    return isinstance(args, Mapping) and "guestURL" in args


def guests_in(document: Document) -> list[ConfiguredGuest]:
    """Return the guests of a configuration. Raises PluginLoadError if two modules have the same name."""
    found: dict[str, ConfiguredGuest] = {}
    profile: dict[str, Any]
    for i, profile in enumerate(document.values.get("profiles") or []):
        for j, args in enumerate(profile.get("pluginConfig") or []):
            if not is_guest(args.value):
                continue
            path = f"profiles[{i}].pluginConfig[{j}].args"
            guest = ConfiguredGuest(args.name, args.value, document.source, path, line_of(document.root, path) or 0)
            known = found.setdefault(args.name, guest)
            if (known.url, known.args.get("sha256")) != (guest.url, guest.args.get("sha256")):
                text = f"another profile has {known.url} under the name {guest.name}; give this one another name"
                raise PluginLoadError([guest.fault(text)])
    return list(found.values())


#: The size limit of a module. Typical guests have 1 to 2 MiB, guests of the Go compiler up to 10 MiB.
_MAX_BYTES: Final = 128 << 20
#: The timeout of a connection without data, and of a whole download.
_SECONDS: Final = 30.0
_TOTAL_SECONDS: Final = 120.0
_MAGIC: Final = b"\0asm"


def fetch(plugin: str, args: GuestArgs) -> bytes:
    """Read the module from a file or over HTTP, and check its checksum. Raises PluginLoadError."""
    where = f"{plugin}: guestURL {args.guest_url}"
    module = _read(where, args.guest_url)
    found = hashlib.sha256(module).hexdigest()
    if args.digest and found != args.digest:
        raise PluginLoadError(
            f"{where}: its sha256 is {found}, not {args.digest}; if the new module is correct, update sha256"
        )
    if not module.startswith(_MAGIC):
        raise PluginLoadError(f"{where}: is not a WebAssembly module; use the .wasm file that the compiler wrote")
    if args.guest_url.startswith("http://") and not args.digest:
        get_logger("mooring").warning(
            "a guest was fetched over plain HTTP; pin it with sha256", plugin=plugin, url=args.guest_url, sha256=found
        )
    return module


def _read(where: str, url: str) -> bytes:
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        return _read_file(where, Path(rest))
    import http.client
    import urllib.error
    import urllib.request

    try:
        # A TLS context for each call: by default Python keeps the first one, with the certificates of that time.
        tls = ssl.create_default_context() if scheme == "https" else None
        with urllib.request.urlopen(url, timeout=_SECONDS, context=tls) as answer:  # `GuestArgs` checks the scheme
            module = _download(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise PluginLoadError(f"{where}: the server answered {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise PluginLoadError(f"{where}: cannot be reached: {reason}") from None
    return _checked_size(where, module)


def _download(answer: http.client.HTTPResponse) -> bytes:
    """Read a response. Raises TimeoutError if that takes too long, however slowly the server sends."""
    deadline, module = time.monotonic() + _TOTAL_SECONDS, bytearray()
    while len(module) <= _MAX_BYTES and (part := answer.read1(1 << 20)):
        module += part
        if time.monotonic() > deadline:
            raise TimeoutError(f"the download took more than {_TOTAL_SECONDS:g} s")
    return bytes(module)


def _checked_size(where: str, module: bytes) -> bytes:
    if len(module) > _MAX_BYTES:
        raise PluginLoadError(f"{where}: has more than {_MAX_BYTES >> 20} MiB")
    return module


def _read_file(where: str, path: Path) -> bytes:
    try:
        if not path.is_file() and path.exists():  # a pipe or device may block, or never end
            raise PluginLoadError(f"{where}: is not a regular file")
        with path.open("rb") as file:
            return _checked_size(where, file.read(_MAX_BYTES + 1))
    except FileNotFoundError:
        raise PluginLoadError(f"{where}: no such file (the path in it is {path})") from None
    except OSError as error:
        raise PluginLoadError(f"{where}: {error.strerror or error}") from None
