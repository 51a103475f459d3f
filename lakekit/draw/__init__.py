"""Facts and small tables as text, HTML and pictures.

Pure: nothing here reads a table, a terminal or a clock.
"""
