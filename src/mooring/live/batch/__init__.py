"""Batch sessions on a live cluster."""
