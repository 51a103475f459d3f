"""File indexes of data files, one plugin module for each kind.

An index may say that rows cannot match, never that they do. A module is found by its name and has:

    NAME, OPTIONS, TYPES                           the options of a column's index, the type roots it takes
    takes(type)                                    whether it takes the type, if not all types of its roots
    build(column, type, options)                   the payload
    probe(payload, type, leaf, row_count)          False (no row), True (cannot tell) or a BitMap (only these may match)
    rows(payload, type, question, row_count)       the matching rows, if it knows rows: `select_rows` uses them
    absent(payloads, type, leaf)                   the files in which = or IN finds no row, if many can be searched
                                                   as fast as one: `rule_out_files` calls it first

`evaluator` calls them all. A payload is bytes or a view of them, so that none is copied.
"""

NOT_PARTS = frozenset({"container", "evaluator"})
