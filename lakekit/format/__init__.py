"""Data files as Polars LazyFrames of their physical columns: `parquet`, `orc`, `avro`; `dtypes` between type systems, `casts` between types."""
