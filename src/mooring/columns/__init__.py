"""The node table: nodes and pods in columns. Every decision reads it."""
