"""Reads: snapshot → plan → LazyFrame.

Planning reads metadata only; rows are decoded when Polars runs the frame, never before.
"""
