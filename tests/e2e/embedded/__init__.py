"""The embedded cluster beside a real control plane: the same questions, the same answers."""
