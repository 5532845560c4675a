"""Tuning: searches weights, strategies and arguments of plugins for a user's objective."""
