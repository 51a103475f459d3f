"""Metastores, one a module named after the value of `metastore`: each has `open(settings)`, which reads nothing and answers a `Metastore`."""
