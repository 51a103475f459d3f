"""Change rows: delete, update and merge."""
