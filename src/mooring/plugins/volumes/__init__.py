"""Helpers that the volume plugins share: a pod's volumes and claims, CSI nodes, translation of in-tree volumes."""
