"""Tables in memory, the writers of their buckets, and what those left: for the tests of writers."""

from __future__ import annotations

import polars as pl

from lakekit.bucket.bucket_writer import BucketWriter
from lakekit.bucket.restore import EMPTY_BUCKET
from lakekit.commit.committer import commit_changes
from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.format.polars_types import polars_schema
from lakekit.metadata.table_context import open_context
from lakekit.model.table_schema import TableSchema
from lakekit.read import polars_pushdown, table_scan
from lakekit.storage.memory import MemoryStorage
from lakekit.types import Field, parse

EMPTY = bytes(12)
KV = {"k": "INT NOT NULL", "v": "STRING"}


def table(columns=KV, keys=("k",), partitions=(), **options):
    """A table in memory."""
    storage = MemoryStorage()
    fields = tuple(Field(name, parse(text), id=at) for at, (name, text) in enumerate(columns.items()))
    given = {key.replace("_", "-").replace("--", "."): value for key, value in {"bucket": "1", **options}.items()}
    schema = TableSchema(
        version=3, id=0, fields=fields, highest_field_id=len(fields) - 1, primary_keys=tuple(keys), partition_keys=tuple(partitions), options=given
    )
    storage.put("/t/schema/schema-0", schema.to_json())
    return open_context("/t", storage=storage)


def rows(handle, *given):
    """Rows as a frame for a bucket writer: the values, and a kind in key tables."""
    kind = {"_VALUE_KIND": pl.Int8()} if handle.schema.primary_keys else {}
    return pl.DataFrame(list(given), schema={**polars_schema(handle.schema.fields), **kind}, orient="row")


def writer(handle, restored=EMPTY_BUCKET, bucket=0, total=None, **more):
    return BucketWriter(handle, EMPTY, bucket, handle.options.bucket if total is None else total, restored, make_file_names(handle), **more)


def held(handle, files, bucket=0):
    """The rows of some files as they lie, with their system columns."""
    paths = [data_file_path(handle, EMPTY, bucket, file) for file in files]
    system = ("_SEQUENCE_NUMBER", "_VALUE_KIND") if handle.schema.primary_keys else ("_SEQUENCE_NUMBER",)
    return scan_files(handle, files, paths, handle.schema.fields, system=system).collect().rows()


def stored(handle):
    """The names of all data and index files."""
    return sorted(path.rpartition("/")[2] for path in handle.storage.files if "/bucket-" in path or "/index/" in path)


def read(handle):
    return polars_pushdown.scan_lazily(table_scan.scan(handle, None)).collect()


def commit(handle, messages, identifier=1, user="u"):
    return commit_changes(handle, messages, commit_user=user, identifier=identifier)
