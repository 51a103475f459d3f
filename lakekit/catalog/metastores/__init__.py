"""Metastores, one module for each value of `metastore`.

Each has `open(settings)`, which reads nothing and returns a `Metastore`.
"""
