"""Custom resources: what a CustomResourceDefinition makes of a schema."""
