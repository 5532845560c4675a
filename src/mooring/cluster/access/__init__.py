"""Who may do what: tokens, roles, and the questions that clients ask about them."""
