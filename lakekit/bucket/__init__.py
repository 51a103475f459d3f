"""Everything that happens inside one bucket: what a task runs, here or on Spark. Nothing above this floor is needed to run it."""
