"""The scheduling engine: cache, queue, profiles and attempts. It does no I/O: events go in, decisions come out."""
