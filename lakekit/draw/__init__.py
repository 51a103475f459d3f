"""Facts and small tables as text and as HTML. Pure: nothing here reads a table, a terminal or a clock; values and a width in, text out."""
