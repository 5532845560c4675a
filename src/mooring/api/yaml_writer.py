"""Writes plain data as YAML that Kubernetes reads back as the same data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

from mooring.api.yaml_scalars import resolve_plain

#: Line breaks that PyYAML leaves unquoted although readers fold them, and the byte order mark, which readers drop.
_UNUSUAL: Final = frozenset("\r\x85\u2028\u2029\ufeff")


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes text that goyaml would read as a boolean or a number, and writes lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value in full, without aliases."""
        return True


def _represent_text(dumper: _Dumper, data: str) -> yaml.ScalarNode:
    if not _UNUSUAL.isdisjoint(data):
        style: str | None = '"'
    elif resolve_plain(data)[0] != "str":
        style = "'"
    else:
        style = "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(data: Any) -> str:
    """Return the data as one YAML document in block style."""
    return documents_text([data], width=120)


def documents_text(documents: Iterable[Any], *, width: int = 80) -> str:
    """Return several YAML documents in block style."""
    text: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=width
    )
    return text
