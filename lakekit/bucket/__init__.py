"""Reading, writing, merging and compacting one bucket: what a task runs, in this process or on Spark.

Imports nothing from the layers above it.
"""
