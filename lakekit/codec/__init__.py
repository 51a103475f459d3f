"""Codecs: pure functions from bytes to values and back.

They know no file, no table and no clock, and trust no byte they read. Damaged or hostile bytes raise `Corrupt`,
`LimitExceeded` or `Unsupported` with the offset and the name of the field, never anything else.
"""
