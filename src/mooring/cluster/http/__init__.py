"""The HTTP API: paths, bodies, responses and watches."""
