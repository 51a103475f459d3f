"""Snapshot → plan → LazyFrame. Planning looks at metadata only; rows are decoded when Polars runs the frame, never before."""
