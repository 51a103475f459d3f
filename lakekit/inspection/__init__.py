"""View models of a table: timeline, manifest tree, levels, bytes of a file."""
