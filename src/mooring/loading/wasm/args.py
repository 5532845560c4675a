"""The arguments of a plugin that is a WebAssembly guest: those of kube-scheduler-wasm-extension, and limits of ours."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mooring.api.quantity import QuantityError, value
from mooring.config.durations import parse_duration

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_SCHEMES: Final = ("file://", "http://", "https://")


class GuestArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `pluginConfig[].args` may say. `guestURL` is what makes a plugin a guest."""

    #: Where the module is: `file://` (relative paths are relative to where Mooring was started), `http://`, `https://`.
    guest_url: str = msgspec.field(name="guestURL")
    #: Handed to the guest as it is.
    guest_config: str = msgspec.field(name="guestConfig", default="")
    #: The least severe messages of the guest that are logged: 0 info, 1 warning, 2 error, 3 fatal.
    log_severity: int = msgspec.field(name="logSeverity", default=0)
    #: The guest's command line.
    arguments: tuple[str, ...] = msgspec.field(name="args", default=())
    #: The same, as the extension spells it.
    go_arguments: tuple[str, ...] = msgspec.field(name="Args", default=())
    #: The module's checksum; a module with another one is refused.
    sha256: str = ""
    #: How long one call into the guest may take.
    time_limit: str = msgspec.field(name="timeLimit", default="2s")
    #: How much memory an instance of the guest may have.
    memory_limit: str = msgspec.field(name="memoryLimit", default="256Mi")

    def __post_init__(self) -> None:
        if not self.guest_url.startswith(_SCHEMES):
            raise ValueError(f"guestURL {self.guest_url!r} must begin with file://, http:// or https://")
        if not 0 <= self.log_severity <= 3:
            raise ValueError(f"logSeverity is {self.log_severity}; it must be 0 (info) to 3 (fatal)")
        if self.sha256 and not _DIGEST.fullmatch(self.sha256.lower()):
            raise ValueError("sha256 must be 64 hexadecimal digits, as sha256sum prints them")
        if self.seconds <= 0:
            raise ValueError(f"timeLimit {self.time_limit!r} must be more than nothing")
        try:
            enough = self.memory_bytes >= 1 << 16
        except QuantityError as error:
            raise ValueError(f"memoryLimit: {error}") from None
        if not enough:
            raise ValueError(f"memoryLimit {self.memory_limit!r} is less than one page of memory (64Ki)")

    @property
    def digest(self) -> str:
        """The checksum that the module must have, as plain digits; "" for any."""
        match = _DIGEST.fullmatch(self.sha256.lower())
        return match[1] if match else ""

    @property
    def seconds(self) -> float:
        """The time limit."""
        return parse_duration(self.time_limit) / 1e9

    @property
    def memory_bytes(self) -> int:
        """The memory limit."""
        return value(self.memory_limit)

    @property
    def argv(self) -> tuple[str, ...]:
        """The guest's command line."""
        return self.arguments or self.go_arguments
