"""Compatibility groups: devices that consume counters of the same set need a group in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.plugins.dynamic_resources.pools import DeviceContent

#: The groups that all devices on a counter set have in common; empty if they have no groups.
Common = frozenset[str]


class CompatibilityGroups:
    """The groups of the devices that consume the counters of one pool."""

    def __init__(self, allocated: Iterable[DeviceContent]) -> None:
        """``allocated`` are the devices in use."""
        #: Counter set -> what its devices have in common. A set without devices has no entry.
        self._common: dict[str, Common] = {}
        for content in allocated:
            for name, groups in content.groups:
                known = self._common.get(name)
                if known is None:
                    self._common[name] = groups
                elif known and groups:
                    # Devices in use that should not be together leave nothing in common, so nothing else fits.
                    self._common[name] = known & groups or _INCOMPATIBLE

    def add(self, content: DeviceContent) -> Callable[[], None] | None:
        """Add a device. Return how to undo it; None if the device is not compatible."""
        before: list[tuple[str, Common | None]] = []

        def undo() -> None:
            for name, known in reversed(before):
                if known is None:
                    del self._common[name]
                else:
                    self._common[name] = known

        for name, groups in content.groups:
            known = self._common.get(name)
            common = groups if known is None else known & groups
            # A device without groups only goes with devices without groups.
            if known is not None and not common and (known or groups):
                undo()
                return None
            before.append((name, known))
            self._common[name] = common
        return undo


#: In common to devices that have groups, but none in common. It is no valid name.
_INCOMPATIBLE: Common = frozenset({"\0"})
