"""Files of a table's buckets as rows: data files with today's columns (`read`, `evolve`), without deleted rows (`deletions`); where they lie (`places`)."""
