"""Recordings: everything that decisions depend on, and the decisions, in a compressed append-only file.

`docs/record-and-replay.md` describes the format.
"""
