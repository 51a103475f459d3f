"""Metadata files of a table: list and read its schemas, snapshots, tags, branches and consumers."""
