"""Reloading of plugins and configuration while the scheduler runs."""
