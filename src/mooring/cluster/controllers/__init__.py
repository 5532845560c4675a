"""The controller framework, and controllers that do not belong to one kind."""
