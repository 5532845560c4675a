"""What people see of a running scheduler: logs, and later metrics and decision records."""
