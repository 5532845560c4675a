"""The Common Expression Language, as Kubernetes uses it: parser, type checker, evaluator and cost limit.

The selectors of device requests are CEL expressions (`devices`). An environment (`environment`) declares the variables
and functions of an expression, so that other users of CEL can have their own.
"""
