"""Built-in plugins, one module each, named as in kube-scheduler."""
