"""What a plugin costs, by the way it is written: `python -m bench.plugins`."""
