"""Batch sessions: Volcano's scheduler, from its own configuration file."""
