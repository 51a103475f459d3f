"""File indexes: what a data file says of itself beside its statistics. One rule: an index may say that rows cannot match, never that they do.

Every module in this folder is one index, found by its name: NAME, OPTIONS (that a column's index takes), TYPES (the roots it takes),
build(column, type, options) -> payload, and probe(payload, type, leaf, row_count) -> False (no row), True (cannot tell) or a BitMap (only these row
positions may match). `evaluate` asks them all. A payload is bytes or a view of them, for whoever asks copies none of it.
Those that know rows have rows(payload, type, question, row_count) -> BitMap too: `exact` asks them for what is certain. Those of which many are looked at
as fast as one have absent(payloads, type, leaf) -> mask: the files where = or IN finds no row. `together` asks them first. One that does not take all
types of a root has takes(type) -> whether it does.
"""

NOT_PARTS = frozenset({"container", "evaluator", "exact", "index_keys", "together"})
