"""Checks of a table: `table_check` runs all of them.

The package is loaded when a table is checked, since decoding in a second process takes long to import.
"""
