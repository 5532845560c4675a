"""The flags of `mooring run`: those of kube-scheduler and vc-scheduler, supported and unsupported."""
