"""Guests in a configuration: every plugin whose arguments have a `guestURL`, whatever its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.yaml_nodes import line_of
from mooring.config.document import Document
from mooring.loading.errors import Fault, PluginLoadError


class ConfiguredGuest(msgspec.Struct, frozen=True):
    """A guest as a configuration names it, and where it does so."""

    name: str
    args: Mapping[str, Any]
    source: str
    path: str
    line: int

    @property
    def url(self) -> Any:
        """Where its module is."""
        return self.args["guestURL"]

    def fault(self, message: str) -> Fault:
        """Something that is wrong with it."""
        return Fault(self.source, self.line, f"{self.path}: {message}")


def is_guest(args: object) -> bool:
    """Whether a plugin with these arguments is a guest."""
    return isinstance(args, Mapping) and "guestURL" in args


def guests_in(document: Document) -> list[ConfiguredGuest]:
    """The guests of a configuration. Raises PluginLoadError where one name means two modules."""
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
