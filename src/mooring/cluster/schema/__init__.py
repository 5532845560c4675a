"""The structure of objects: the fields of each kind, and checks of documents."""
