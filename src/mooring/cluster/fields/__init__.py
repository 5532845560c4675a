"""Field ownership: sets of fields, differences between documents, and merging."""
