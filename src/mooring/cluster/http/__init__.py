"""The HTTP API: paths, bodies, answers and watches."""
