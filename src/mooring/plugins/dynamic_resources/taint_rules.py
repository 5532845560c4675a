"""Taints of devices: the ResourceSlices with the taints that DeviceTaintRules add, or without any taints."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.devices import Device, DeviceTaintRule, ResourceSlice
from mooring.framework import Lister
from mooring.releases import Release

_replace = msgspec.structs.replace


def may_match(rule: DeviceTaintRule, value: ResourceSlice, release: Release) -> bool:
    """Return whether a rule selects the driver and the pool of a slice."""
    selector, spec = rule.spec.device_selector, value.spec
    if selector is None:
        return release.bare_taint_rules_select_all
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


def changes_taints(
    old: DeviceTaintRule | None, new: DeviceTaintRule | None, slices: Iterable[ResourceSlice], release: Release
) -> bool:
    """Return whether the change of a rule changes the taints of a device in some slices."""
    if old is not None and new is not None and old.spec == new.spec:
        return False
    rules = [rule for rule in (old, new) if rule is not None]
    return any(
        may_match(rule, each, release) and any(_selects(rule, device) for device in each.spec.devices)
        for each in slices
        for rule in rules
    )


def _selects(rule: DeviceTaintRule, device: Device) -> bool:
    """Return whether a rule that selects the slice selects a device of it."""
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device.name)


class TaintedSlices:
    """Keeps ``slices`` up to date: the published slices, with the taints of all rules."""

    def __init__(self, published: Lister[ResourceSlice], rules: Lister[DeviceTaintRule], release: Release) -> None:
        self.slices: Lister[ResourceSlice] = Lister()
        self._release = release
        self._published = published
        self._rules = rules
        for each in published.list():
            self._slice_changed(None, each)
        published.listen(self._slice_changed)
        rules.listen(self._rule_changed)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is not None:
            self.slices.put(self._tainted(new))
        elif old is not None:
            self.slices.remove(old.name)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        for each in list(self._published.list()):
            if changes_taints(old, new, (each,), self._release):
                self.slices.put(self._tainted(each))

    def _tainted(self, value: ResourceSlice) -> ResourceSlice:
        rules = [rule for rule in self._rules.list() if may_match(rule, value, self._release)]
        if not rules:
            return value
        rules.sort(key=lambda rule: rule.name)
        devices = tuple(_with_taints(device, rules) for device in value.spec.devices)
        return _replace(value, spec=_replace(value.spec, devices=devices))


class UntaintedSlices:
    """Keeps ``slices`` up to date: the published slices without taints, for releases whose taints are disabled."""

    def __init__(self, published: Lister[ResourceSlice]) -> None:
        self.slices: Lister[ResourceSlice] = Lister()
        for each in published.list():
            self._slice_changed(None, each)
        published.listen(self._slice_changed)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is not None:
            devices = tuple(_replace(device, taints=()) if device.taints else device for device in new.spec.devices)
            self.slices.put(_replace(new, spec=_replace(new.spec, devices=devices)))
        elif old is not None:
            self.slices.remove(old.name)


def _with_taints(device: Device, rules: list[DeviceTaintRule]) -> Device:
    added = tuple(rule.spec.taint for rule in rules if _selects(rule, device))
    return _replace(device, taints=(*device.taints, *added)) if added else device
