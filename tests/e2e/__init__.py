"""Tests on a real control plane. `make e2e` builds it once and runs them."""
