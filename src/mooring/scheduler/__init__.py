"""The engine: cache, queue, cycle, preemption, profiles. It does no I/O: events go in, decisions come out."""
