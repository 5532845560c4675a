"""Coscheduling: pods of a group are placed together or not at all."""

from mooring.plugins.coscheduling.plugin import Coscheduling

__all__ = ["Coscheduling"]
