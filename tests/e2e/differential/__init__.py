"""The same random clusters through kube-scheduler and through Mooring, on real API servers."""
