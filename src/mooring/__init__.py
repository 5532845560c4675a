"""Mooring: a Kubernetes scheduler that you extend in Python."""

__version__ = "0.1.0"
