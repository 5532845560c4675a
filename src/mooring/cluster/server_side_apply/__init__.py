"""Server-side apply: field sets, comparison of objects, and managed fields."""
