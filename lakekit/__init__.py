"""Apache Paimon tables in Python, as Polars frames, without a JVM."""

__version__ = "0.1.0"
