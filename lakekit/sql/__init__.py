"""Statements over the tables of a catalog: what they say is understood here, once, and done by the public methods of catalogs and tables.

    words         a statement's words              expressions   conditions and values as Polars expressions
    statements    rows: INSERT, DELETE, …          definitions   CREATE, ALTER, DROP, SHOW, …
    calls         CALL sys.…                       procedures    what can be called

Who computes the rows of a query is a `Door`: Polars in this process (`here`, for `cat.sql`), or a session of Spark (`lakekit.spark.speaking`, for `ls.sql`).
"""
