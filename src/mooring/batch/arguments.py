"""Arguments of a built-in plugin or action, read as leniently as Volcano reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from mooring.batch.task import parse_bool

T = TypeVar("T")


class Arguments(Mapping[str, Any]):
    """The configured arguments. A value of the wrong type is ignored, with an entry in ``warnings``."""

    def __init__(self, values: Mapping[str, Any] | None = None, *, owner: str = "") -> None:
        self._values = dict(values or {})
        self._owner = owner
        self.warnings: list[str] = []

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, key: str, default: int) -> int:
        """Return an integer."""
        value = self._values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._default(key, value, default, "a whole number")

    def number(self, key: str, default: float) -> float:
        """Return a number."""
        value = self._values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        return self._default(key, value, default, "a number")

    def boolean(self, key: str, default: bool) -> bool:
        """Return a boolean, given as such or as text."""
        value = self._values.get(key)
        if isinstance(value, bool):
            return value
        parsed = parse_bool(value) if isinstance(value, str) else None
        return parsed if parsed is not None else self._default(key, value, default, "true or false")

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self._values.get(key)
        return value if isinstance(value, str) else self._default(key, value, default, "text")

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping; empty if not given."""
        value = self._values.get(key)
        if isinstance(value, dict):
            return {str(name): each for name, each in value.items()}
        empty: dict[str, Any] = {}
        return self._default(key, value, empty, "a mapping")

    def _default(self, key: str, value: object, default: T, wanted: str) -> T:
        if key in self._values:
            self.warnings.append(f"{self._owner}: {key}: {value!r} is not {wanted}; {default!r} is used")
        return default
