"""Databases that store a catalog, one module each: connections, their SQL, the meaning of errors.

connect(address)              a connection of DB-API 2, each statement a transaction of its own, its clock in UTC
Error                         the root of the driver's errors
PLACEHOLDER                   the placeholder of a value in a statement
LOCK_EXPIRED_CONDITION        the SQL condition that a lock's row is older than it says; None if the database cannot
                              know
is_duplicate_key, is_busy, is_missing_table, error_hint
                              the meaning of an error
"""
