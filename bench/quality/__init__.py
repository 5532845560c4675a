"""Placement quality on a public GPU trace. docs/placement.md has the results."""
