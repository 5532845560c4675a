"""Schedulers side by side on a real API server. `make bench-live` runs this; `bench/README.md` keeps the numbers."""
