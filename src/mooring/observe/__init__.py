"""Observability of a running scheduler: logs, metrics and decision records."""
