"""Metadata files over a storage: which schemas, snapshots, tags, branches and consumers a table has, and what they say."""
