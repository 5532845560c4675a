"""What can go wrong with a guest while it runs."""

from __future__ import annotations


class GuestError(RuntimeError):
    """A guest failed: it trapped, took too long, or answered what nobody understands."""

    def __init__(self, export: str, detail: str) -> None:
        super().__init__(f"wasm: {export} error: {' '.join(detail.split())}")
