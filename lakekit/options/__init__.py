"""Options and features: what may be set, and what lakekit supports.

Values are read as attributes, never by string outside this package.
"""
