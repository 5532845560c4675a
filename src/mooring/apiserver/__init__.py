"""Rules of kube-apiserver and kube-controller-manager: defaults, validation, admission, names, workload expansion.

All functions take and return JSON documents and import neither a store nor HTTP. The embedded cluster serves objects by
these rules, and `mooring simulate` applies the same ones to manifests.
"""
