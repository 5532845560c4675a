"""Custom resources: serving, validation and tables."""
