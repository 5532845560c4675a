"""Fixtures of the tests of the dashboard."""

from tests.live.conftest import embedded

__all__ = ["embedded"]
