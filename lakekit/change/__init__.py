"""Schemas made and changed: what `lk.create` and `t.alter` write, checked as the reference checks."""
