"""Tables that are folders, whose files no manifest lists.

The files are the rows of a format table; an object table has a row for each file.
"""
