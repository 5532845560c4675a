"""What batch jobs need around a scheduler: queues, groups of pods, jobs, and the definitions of their kinds.

Everything here is a reconciler: it says which objects to look at when something changed, and makes one of them right.
`program` runs them on one client and one set of reflectors.
"""
