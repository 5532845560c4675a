"""Batch sessions on a real API server. `make bench-batch` runs this; `bench/README.md` contains the results."""
