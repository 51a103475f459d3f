"""Data files as Polars frames of their physical columns: `parquet`, `orc`, `avro`; `dtypes` between type systems, `casts` between types.

A format is a module here, named as `file.format` names it. It is found by that name, so that another distribution may add one.
"""

import warnings

warnings.filterwarnings("ignore", message=".*is considered unstable", module=r"lakekit\.")
"""Polars warns of features that it may change; whoever asked for that (`POLARS_WARN_UNSTABLE=1`) meant lines of their own."""
NOT_PARTS = frozenset({
    "arrange", "avro_cells", "avro_held", "avro_writer", "external_reader", "calendar", "casts", "text_casts", "decimals", "polars_types", "foreign_file", "held",
    "java_text", "orc_held", "orc_maps", "orc_times", "orc_write", "parquet_bounds", "parquet_chunks", "parquet_few",
    "parquet_footer", "parquet_held", "parquet_spans", "parquet_pages", "parquet_pass", "parquet_schema", "parquet_writer", "texts", "thrift", "told",
    "encoder",
})  # fmt: skip
"""Modules of the folder that are no formats."""
