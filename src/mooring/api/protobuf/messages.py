"""The field numbers of Kubernetes' protobuf messages, from `messages.json`."""

import functools
from pathlib import Path

import msgspec


@functools.cache
def messages() -> dict[str, dict[int, tuple[str, str]]]:
    """Return the name and type of each field number of each message (`core.Pod`)."""
    raw = msgspec.json.decode((Path(__file__).parent / "messages.json").read_bytes())
    return {name: {int(number): tuple(field) for number, field in fields.items()} for name, fields in raw.items()}
