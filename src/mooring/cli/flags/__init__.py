"""The flags of `mooring run`: kube-scheduler's and vc-scheduler's, those that work here and why others do not."""
