"""Validation that several kinds share, with the messages of Kubernetes."""
