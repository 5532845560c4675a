"""Benchmarks. `make bench` runs them; `bench/README.md` contains the results."""
