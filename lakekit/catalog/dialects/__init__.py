"""Databases that store a catalog, one module each: connections, their SQL, the meaning of errors.

connect(address)             a connection of DB-API 2, each statement a transaction of its own, its clock in UTC
Error, TRANSIENT             the root of its errors; what `is_busy` looks for
PLACEHOLDER                         the placeholder of a value in a statement
LOCK_EXPIRED_SQL                      whether a lock's row is older than it says; None where the database cannot know
is_duplicate, is_busy, is_missing
"""
