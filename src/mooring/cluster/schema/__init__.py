"""The shapes of objects: what fields a kind has, and how a document is checked against it."""
