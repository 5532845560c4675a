"""The cost of a plugin in different forms: `python -m bench.plugins`."""
