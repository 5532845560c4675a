"""What people see of a running scheduler: logs, metrics, and decision records ("why")."""
