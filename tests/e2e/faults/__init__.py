"""Faults on the way between a scheduler and its API server, and what must hold after them."""
