"""SQL text as trees: the dialect, the parser, and errors with line, column and caret.

    parser     a text as a tree of sqlglot     dialect     the names, literals and additions of lakekit's SQL

Every text that is called SQL is parsed here: conditions and values of `where=` and `update`, statements of `cat.sql`.
"""
