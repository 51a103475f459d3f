"""Files of golden tables, written anew: manifests say of them what the reference said, and they have the reference's columns, ids and types."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from io import BytesIO

import fastavro
import pyarrow.parquet as pq
import pytest

from lakekit.codec import binary_row, orc_tail
from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.metadata import manifest_reader, schemas, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.options.table_options import TableOptions
from lakekit.storage.memory import MemoryStorage
from lakekit.testing.fixtures import fixtures

TABLES = fixtures() / "tables"
CASES = sorted(path.name for path in TABLES.iterdir() if path.is_dir() and path.name.startswith("types_"))
MORE = [
    *("append_partitioned", "dedup_avro", "dedup_orc", "files_path_directory", "files_suffix_compression", "files_rolling", "index_keyed", "index_map_keys"),
    *("files_thin_mode_avro", "files_thin_mode_orc", "files_thin_mode_parquet", "index_several", "old_1_2_0_key", "vectors_keyed_buckets"),
]
FACTS = (
    "row_count",
    "max_key",
    "min_sequence_number",
    "max_sequence_number",
    "delete_row_count",
    "level",
    "source",
    "value_stats_cols",
    "schema_id",
    "write_cols",
)


@cache
def rewritten(name):
    """The live files of a golden table and what lakekit makes of their rows: (columns, their fact, their bytes, our fact, our bytes)."""
    handle = open_context(str(TABLES / name))
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    entries = manifest_reader.read_live_entries(handle, snapshot)
    found = []
    places = zip(entries.files(), entries.column("partition").to_pylist(), entries.column("bucket").to_pylist(), strict=True)
    for theirs, partition, bucket in list(places)[:4]:
        then = handle.with_schema(schemas.read_schema(handle, theirs.schema_id))
        options = dict(then.schema.options) | {"file.format": theirs.format_name}
        ours = replace(then, storage=MemoryStorage(), options=TableOptions.parse(options, kind=then.kind))
        path = data_file_path(then, partition, bucket, theirs)
        keyed = then.kind == "key"
        frame = scan_files(then, [theirs], [path], list(then.schema.fields), system=("_SEQUENCE_NUMBER", "_VALUE_KIND") if keyed else ()).collect()
        aim = WriteTarget(
            ctx=ours,
            partition=partition,
            bucket=bucket,
            level=theirs.level,
            source=theirs.source or 0,
            file_names=make_file_names(ours),
            is_keyed=keyed,
            first_sequence_number=theirs.min_sequence_number,
        )
        [made] = write_run(aim, [frame])
        found.append((then.schema, theirs, then.storage.read(path), made, ours.storage.read(data_file_path(ours, partition, bucket, made))))
    assert found
    return found


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_facts(name):
    for schema, theirs, _, ours, _ in rewritten(name):
        for fact in FACTS:
            assert getattr(ours, fact) == getattr(theirs, fact), fact
        same_stats(schema.key_fields, ours.key_stats, theirs.key_stats, theirs.format_name)
        listed = schema.fields if theirs.value_stats_cols is None else [field for field in schema.fields if field.name in theirs.value_stats_cols]
        same_stats(listed, ours.value_stats, theirs.value_stats, theirs.format_name)


def same_stats(fields, ours, theirs, form):
    """Equal bounds and counts, but where the reference's are of no use (NaN), or ours tell more (INT96) or less (signs of zeros, blanks of CHAR)."""
    types = [field.type for field in fields]
    assert ours.null_counts == theirs.null_counts
    for side in ("min_values", "max_values"):
        pairs = zip(fields, *(binary_row.decode_row(binary_row.strip_arity(getattr(one, side))[1], types) for one in (ours, theirs)), strict=True)
        for field, mine, other in pairs:
            root, fine = field.type.root, (field.type.precision or 0) > 6
            if root in ("FLOAT", "DOUBLE"):
                assert mine is None or other == mine or (math.isinf(mine) and other is not None), field
            elif form == "parquet" and root.startswith("TIMESTAMP") and fine:
                assert other is None
            elif form == "orc" and root == "CHAR":
                assert mine == other.rstrip(" "), field
            else:
                assert mine == other, field


@pytest.mark.parametrize("name", CASES)
def test_columns(name):
    _, theirs, their_bytes, _, our_bytes = rewritten(name)[0]
    columns = {"parquet": parquet_columns, "orc": orc_columns, "avro": avro_columns}[theirs.format_name]
    assert columns(our_bytes) == columns(their_bytes)


def parquet_columns(data):
    return str(pq.ParquetFile(BytesIO(data)).schema).splitlines()[1:]


def avro_columns(data):
    return json.loads(fastavro.reader(BytesIO(data)).metadata["avro.schema"])


def orc_columns(data):
    """Kinds, names and attributes of the type tree. Texts of any length are one kind: a reader of either reads both."""
    texts = {16: 7, 17: 7}
    return [
        (texts.get(column.kind, column.kind), column.names, [member for member in column.members if member.field_number == 7])
        for column in orc_tail.parse_tail(data).root.preorder()
    ]


@pytest.mark.parametrize("name", [name for name in CASES if name.endswith("_parquet")])
def test_parquet_chunks_tell_what_the_references_tell(name):
    """Row groups are skipped by these: the same nulls, and bounds no narrower."""
    _, _, their_bytes, _, our_bytes = rewritten(name)[0]
    theirs, ours = (pq.ParquetFile(BytesIO(data)).metadata for data in (their_bytes, our_bytes))
    assert (ours.num_rows, ours.num_columns) == (theirs.num_rows, theirs.num_columns)
    for i in range(ours.num_columns):
        mine, other = ours.row_group(0).column(i), theirs.row_group(0).column(i)
        assert (mine.path_in_schema, mine.physical_type, mine.num_values) == (other.path_in_schema, other.physical_type, other.num_values)
        assert mine.statistics is None or mine.statistics.null_count == other.statistics.null_count


def test_equal_rows_make_equal_files():
    name = "types_nested_avro"
    [(_, _, _, _, first), *_] = rewritten(name)
    rewritten.cache_clear()
    assert rewritten(name)[0][4] == first
