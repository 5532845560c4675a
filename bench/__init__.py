"""Side-by-side benchmarks. `make bench` runs them; `bench/README.md` keeps the numbers."""
