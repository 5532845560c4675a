"""The benchmark of hostile pods: their shapes, and measurements with and without an API server."""
