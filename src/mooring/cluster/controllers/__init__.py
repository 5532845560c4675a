"""What makes the cluster live: the loops that turn wishes into objects, as kube-controller-manager's do."""
