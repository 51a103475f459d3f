"""File formats: data files as Polars frames of their physical columns.

A format (`parquet`, `orc`, `avro`) is a module named as `file.format` names it. It is found by that name, so that
another distribution may add one. `polars_types` converts between type systems, `casts` between types.
"""

import warnings

warnings.filterwarnings("ignore", message=".*is considered unstable", module=r"lakekit\.")
"""Polars warns of features that it may change.

`POLARS_WARN_UNSTABLE=1` is meant for the code of the user, not for this.
"""
NOT_PLUGINS = frozenset({
    "avro_writer", "casts", "encoder", "external_reader", "foreign_file", "orc_rewrite", "orc_write",
    "parquet_footer", "parquet_pages", "parquet_validation", "parquet_writer", "polars_types", "text_casts",
    "texts", "thrift",
})  # fmt: skip
"""Modules of the folder that are no formats."""
