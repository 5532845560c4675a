"""Authentication and authorization: tokens, RBAC and access reviews."""
