"""Schedulers on a real API server. `make bench-live` runs this; `bench/README.md` contains the results."""
