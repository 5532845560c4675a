"""Who owns which field: sets of fields, how documents differ in them, and how a document is applied to another."""
