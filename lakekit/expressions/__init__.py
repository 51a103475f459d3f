"""SQL text as trees and as Polars expressions; errors have line, column and caret.

    parser         a text as a tree of sqlglot            dialect     the names, literals and additions of lakekit's SQL
    translation    a tree as a typed expression           functions   the table of operators and functions
    comparison, numeric_promotion, type_casts             how types meet, widen, and are cast
    text_, number_, time_, nested_functions               what the lines of the table mean

Every text that is called SQL is parsed here: conditions and values of `where=` and `update`, statements of `cat.sql`.
"""
