"""Volumes as several plugins read them: a pod's volumes and claims, CSI nodes, translation of in-tree volumes."""
