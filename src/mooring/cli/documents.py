"""Manifests and objects on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec


def echo_documents(documents: Sequence[dict[str, Any]], output: str) -> None:
    """Print documents for `kubectl apply -f -`: as YAML one after the other, as JSON in a list."""
    if output == "json":
        echo_json({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    else:
        import yaml

        click.echo(yaml.dump_all(documents, Dumper=_dumper(), sort_keys=False), nl=False)


def echo_value(value: Any, output: str) -> None:
    """Print one value as JSON or YAML."""
    if output == "json":
        echo_json(value)
    else:
        import yaml

        plain = msgspec.to_builtins(value)
        click.echo(yaml.dump(plain, Dumper=_dumper(), sort_keys=False, allow_unicode=True), nl=False)


def echo_json(value: Any) -> None:
    """Print one value as JSON, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _dumper() -> Any:
    """Writes what occurs twice twice: anchors are not for people."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Plain
