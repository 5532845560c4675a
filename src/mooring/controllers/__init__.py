"""Controllers for batch jobs: queues, PodGroups, jobs, and the CustomResourceDefinitions of these kinds.

Each controller is a `Reconciler`. `manager.ControllerManager` runs all of them with one client, one set of informers,
and one reconcile loop.
"""
