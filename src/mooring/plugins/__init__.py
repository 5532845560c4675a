"""The built-in plugins, one file each, named as users know them from kube-scheduler."""
