"""Reload plugins and configuration while the scheduler runs."""
