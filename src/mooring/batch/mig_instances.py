"""MIG: a card is divided into instances by one of the geometries of its model, as soon as a pod uses it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mooring.batch.device_config import MigGeometry

_PLACE: Final = re.compile(r"[^\[]*\[([^-\]]*)-(\d{1,9})\]", re.ASCII)


class Instance(NamedTuple):
    """An instance: the geometry's number, the name, its number among those of the name, its memory and its place."""

    geometry: int
    name: str
    number: int
    memory: int
    place: int


class MigCard:
    """The instances of a card that are in use."""

    __slots__ = ("_current", "_geometries", "_used")

    def __init__(self, geometries: tuple[MigGeometry, ...]) -> None:
        self._geometries = geometries
        self._current: int | None = None
        #: The name of instances -> the numbers of those in use, in the order of their first use.
        self._used: dict[str, set[int]] = {}

    def find(self, memory: int) -> Instance | None:
        """Return the instance for a request: the smallest with this memory, of the geometry in use or the first one.

        As in Volcano, a card in use only offers instances of the names that are in use.
        """
        numbers = range(len(self._geometries)) if self._current is None else (self._current,)
        for number in numbers:
            found = self._pick(number, memory)
            if found is not None:
                return found
        return None

    def _pick(self, number: int, memory: int) -> Instance | None:
        instances = self._geometries[number].instances
        for index in sorted(range(len(instances)), key=lambda each: instances[each].memory):
            each = instances[index]
            used = self._used.get(each.name, set()) if self._used else set()
            if each.memory < memory or (self._used and (each.name not in self._used or len(used) >= each.count)):
                continue
            free = 0
            while free in used:
                free += 1
            before = sum(other.count for other in instances[:index])
            return Instance(number, each.name, free, each.memory, before + (free if free < each.count else 0))
        return None

    def label(self, instance: Instance) -> str:
        """Return what follows the card's uuid in the identifier of an instance."""
        return f"[{self._geometries[instance.geometry].group}-{instance.place}]"

    def parse(self, identifier: str) -> Instance | None:
        """Return the instance with an identifier; None if there is none."""
        match = _PLACE.match(identifier)
        if match is None:
            return None
        place = int(match[2])
        for number, geometry in enumerate(self._geometries):
            if geometry.group != match[1]:
                continue
            begin = 0
            for each in geometry.instances:
                if place < begin + each.count:
                    return Instance(number, each.name, place - begin, each.memory, place)
                begin += each.count
            return None
        return None

    def take(self, instance: Instance) -> None:
        """Use an instance."""
        self._current = instance.geometry
        self._used.setdefault(instance.name, set()).add(instance.number)

    def free(self, instance: Instance) -> None:
        """No longer use an instance. The geometry stays."""
        used = self._used.get(instance.name)
        if used is not None:
            used.discard(instance.number)
            if not used:
                del self._used[instance.name]

    def state(self) -> tuple[int | None, dict[str, set[int]]]:
        """Return what is in use, to restore it after a trial."""
        return self._current, {name: set(numbers) for name, numbers in self._used.items()}

    def restore(self, state: tuple[int | None, dict[str, set[int]]]) -> None:
        """Return to a state."""
        self._current, self._used = state
