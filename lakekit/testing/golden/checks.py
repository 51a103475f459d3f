"""The checks of the golden files of each format, as functions `(facts, data)` that raise `Mismatch`.

check(path)          the golden file whose JSON is at `path`
CHECKS["bucket"]     the check of a format; `UNSUPPORTED_FORMATS` are the formats that lakekit refuses by name

rows                 rows, arrays and maps as bytes, the buckets of keys, and casts of changed columns
data files           in Parquet, ORC and Avro: every type, compression and layout, bytes and paths
index files          deletion vectors, key hashes, and file indexes with the reference's answers
broken               damaged files of every format: each is refused with the recorded error; its field and offset are
                     compared if they are recorded
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit import errors, plugins
from lakekit.codec import binary_row, binary_value, hashing, index_files
from lakekit.columns import col
from lakekit.data_file.schema_evolution import evolve_column, is_same_type as same_type
from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.file_index import container
from lakekit.format import avro, orc, parquet
from lakekit.format.casts import CastTarget
from lakekit.format.polars_types import polars_type
from lakekit.model import commit_message, entry_files, index_manifest, manifests, split
from lakekit.model.snapshot import Consumer, Snapshot, Statistics, Tag
from lakekit.model.table_schema import TableSchema
from lakekit.predicate import Leaf
from lakekit.testing.expectations import Read, canonical_value, decode_series, describe_difference, encode_values
from lakekit.testing.fixtures import Mismatch, check_equal, fixtures, load_case
from lakekit.testing.golden import metadata
from lakekit.types import DataType, Field, Instant, arrow, parse, part

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


ROW_KINDS = ("+I", "-U", "+U", "-D")
"""Row kinds; the index of a kind is its code in a row."""


def internal_value_of(recorded: Any, t: DataType) -> Any:
    """Return a recorded JSON value as lakekit's internal value of type `t`."""
    if recorded is None:
        return None
    match t.root:
        case "FLOAT":
            return float(np.float32(recorded))
        case "DOUBLE":
            return float(recorded)
        case "DECIMAL":
            return Decimal(recorded)
        case "BINARY" | "VARBINARY" | "BLOB":
            return bytes.fromhex(recorded)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return Instant(*recorded)
        case "ARRAY":
            return [internal_value_of(item, part(t.element)) for item in recorded]
        case "MAP" | "MULTISET":
            key, value = binary_value.map_types(t)
            return [(internal_value_of(k, key), internal_value_of(v, value)) for k, v in recorded]
        case "ROW":
            return tuple(internal_value_of(item, f.type) for item, f in zip(recorded, t.fields, strict=True))
        case "VARIANT":
            return bytes.fromhex(recorded[0]), bytes.fromhex(recorded[1])
    return recorded


def _vector_bytes(data: bytes, vector: dict[str, Any]) -> bytes:
    return data[vector["offset"] : vector["offset"] + vector["length"]]


# ---- rows, arrays, maps ----------------------------------------------------------------------------------------------


def check_binary_rows(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats binary_row and serialized_row: values, kinds and hashes.

    Encoding the rows, one by one and as columns, gives the recorded bytes.
    """
    for number, vector in enumerate(facts["vectors"]):
        what = f"row {number}"
        types = [parse(text) for text in vector["types"]]
        values = tuple(internal_value_of(value, t) for value, t in zip(vector["values"], types, strict=True))
        row = serialized = _vector_bytes(data, vector)
        if facts["format"] == "serialized_row":
            arity, row = binary_row.strip_arity(row)
            check_equal(f"{what}, arity", arity, len(types))
            check_equal(f"{what}, with its arity", binary_row.with_arity(row, arity), serialized)
        kind = ROW_KINDS.index(vector.get("kind", "+I"))
        check_equal(what, repr(binary_row.decode_row(row, types)), repr(values))
        is_canonical = binary_value.encode_row(values, types, kind) == row
        if facts["origin"] != "hand":  # by hand: text outside its slot, nulls of old engines
            check_equal(f"{what}, written again", binary_value.encode_row(values, types, kind).hex(), row.hex())
        if vector.get("hash") is not None:
            check_equal(f"{what}, hash", hashing.row_hash_code(row), vector["hash"])
        _check_columnar(what, row, types, values, is_canonical=is_canonical and kind == 0)


def _check_columnar(
    subject: str, row: bytes, types: list[DataType], values: tuple[Any, ...], *, is_canonical: bool
) -> None:
    columns = [arrow.to_arrow_array([value, None, value], t) for value, t in zip(values, types, strict=True)]
    if any(value is not None and column.null_count > 1 for value, column in zip(values, columns, strict=True)):
        return  # a timestamp outside the int64 of its unit
    if types and is_canonical:
        check_equal(
            f"{subject}, a column written",
            binary_row.encode_columns(columns, types).take([0, 2]).to_pylist(),
            [row, row],
        )
    decoded = binary_row.decode_columns(
        pa.array([None, binary_row.with_arity(row, len(types))]), types, arity_exact=True
    )
    read_values = [arrow.to_internal_values(column, t) for column, t in zip(decoded, types, strict=True)]
    check_equal(f"{subject}, a column read", repr(read_values), repr([[None, value] for value in values]))


def check_arrays_and_maps(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats binary_array and binary_map: the values, and the same bytes again."""
    for number, vector in enumerate(facts["vectors"]):
        t, body, what = parse(vector["type"]), _vector_bytes(data, vector), f"value {number}"
        value = internal_value_of(vector["value"], t)
        if t.root == "ARRAY":
            check_equal(what, repr(binary_row.decode_array(body, part(t.element))), repr(value))
            check_equal(f"{what}, written again", binary_row.encode_array(value, part(t.element)).hex(), body.hex())
        else:
            check_equal(what, repr(binary_row.decode_map(body, t)), repr(value))
            check_equal(f"{what}, written again", binary_row.encode_map(value, t).hex(), body.hex())


def check_buckets(facts: dict[str, Any], data: bytes) -> None:
    """Check the format bucket: the bytes and hash of each key, and its bucket for several bucket counts."""
    for number, vector in enumerate(facts["vectors"]):
        types, what = [parse(text) for text in vector["types"]], f"key {number}"
        values = [internal_value_of(value, t) for value, t in zip(vector["values"], types, strict=True)]
        columns = [arrow.to_arrow_array([value], t) for value, t in zip(values, types, strict=True)]
        if any(value is not None and column.null_count for value, column in zip(values, columns, strict=True)):
            # a timestamp outside the int64 of its unit: one value at a time
            check_equal(f"{what}, hash", hashing.row_hash_code(binary_row.encode_row(values, types)), vector["hash"])
            continue
        check_equal(
            f"{what}, bytes",
            binary_row.encode_columns(columns, types)[0].as_py().hex(),
            _vector_bytes(data, vector).hex(),
        )
        check_equal(f"{what}, hash", hashing.hash_columns(columns, types).tolist(), [vector["hash"]])
        for count, bucket in vector["count_bucket"]:
            check_equal(
                f"{what}, bucket of {count}",
                hashing.assign_buckets(facts["function"], columns, types, count).tolist(),
                [bucket],
            )


def check_stats(facts: dict[str, Any], data: bytes) -> None:
    """Check the format simple_stats: bounds as serialized rows, read and written again."""
    for number, vector in enumerate(facts["vectors"]):
        types, serialized, what = (
            [parse(text) for text in vector["types"]],
            _vector_bytes(data, vector),
            f"bounds {number}",
        )
        values = tuple(internal_value_of(value, t) for value, t in zip(vector["values"], types, strict=True))
        arity, row = binary_row.strip_arity(serialized)
        check_equal(f"{what}, arity", arity, len(types))
        check_equal(what, repr(binary_row.decode_row(row, types)), repr(values))
        check_equal(
            f"{what}, written again",
            binary_row.with_arity(binary_row.encode_row(values, types), arity).hex(),
            serialized.hex(),
        )


# ---- casts -----------------------------------------------------------------------------------------------------------

JAVA_ONLY_FLOAT_TEXTS = {("0x1p3", "FLOAT"), ("0x1p3", "DOUBLE")}
"""Pairs (text, target type) that Java casts and lakekit refuses: hexadecimal floats."""
_CAST_TARGET = CastTarget(column="c", timestamp_unit="us")


def check_casts(facts: dict[str, Any], _: bytes = b"") -> None:
    """Check the format cast: values that were written as one type and are read as another.

    Both types are types of the same column, before and after a schema change. A change that the reference refuses must
    be refused.
    """
    source = parse(facts["from"])
    for target in facts["targets"]:
        _check_cast(facts["values"], source, target)


def _cast_values(values: list[Any], source: DataType, target: DataType) -> pl.Series:
    return (
        decode_series(values, source, "c")
        .to_frame()
        .select(evolve_column(pl.col("c"), source, target, _CAST_TARGET))
        .to_series()
    )


def _check_cast(values: list[Any], source: DataType, target: dict[str, Any]) -> None:
    want = parse(target["to"])
    what = f"{source} as {want}"
    if same_type(source, want) or (want.is_nested and (source.root == want.root or target["values"] is not None)):
        return  # parts evolve by their ids; from text there are casts, but no such type change
    if target["values"] is None:
        try:
            _cast_values([value for value in values if _is_in_nanosecond_range(value, source)], source, want)
        except Unsupported as refused:
            check_equal(f"{what}, what the refusal says", "was changed from" in str(refused), expected=True)
            return
        raise Mismatch(what, "a refusal", "values")
    good: list[tuple[Any, Any]] = []
    bad: list[tuple[Any, Any]] = []
    for value, result in zip(values, target["values"], strict=True):
        if _is_in_nanosecond_range(value, source):
            refused_one = (
                isinstance(result, dict)
                or not _has_polars_value(result, want)
                or (str(value), want.root) in JAVA_ONLY_FLOAT_TEXTS
            )
            (bad if refused_one else good).append((value, result))
    series = _cast_values([value for value, _ in good], source, want)
    check_equal(f"{what}, type", series.dtype, polars_type(want, timestamp_unit="us"))
    got = [canonical_value(v, want) for v in encode_values(series.to_arrow(), want)]
    check_equal(what, got, [canonical_value(_truncate_nanos(result, want), want) for _, result in good])
    for value, _ in bad:
        check_equal(f"{what}, {value!r} refused", _is_refused(value, source, want), expected=True)


def _has_polars_value(value: Any, target: DataType) -> bool:
    """Return whether the Polars type holds the recorded value: microseconds, and times of the day."""
    if value is not None and target.root == "TIME":
        return 0 <= value < 86_400_000
    if value is not None and target.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (target.precision or 0) > 3:
        return abs(value[0]) < 2**63 // 1000
    return True


def _truncate_nanos(value: Any, target: DataType) -> Any:
    return (
        [value[0], value[1] // 1000 * 1000]
        if value is not None and target.root.startswith("TIMESTAMP") and target.precision == 9
        else value
    )


def _is_in_nanosecond_range(value: Any, source: DataType) -> bool:
    """Return whether nanoseconds hold the value: they reach from 1677 to 2262."""
    nanos = source.root.startswith("TIMESTAMP") and source.precision == 9
    return not nanos or value is None or abs(value[0]) < 2**63 // 1_000_000


def _is_refused(value: Any, source: DataType, target: DataType) -> bool:
    try:
        _cast_values([value], source, target)
    except ValueOutOfRange as refusal:
        return refusal.column == "c" and "c" in refusal.message
    return False


# ---- data files ------------------------------------------------------------


def projected_fields(facts: dict[str, Any]) -> list[Field]:
    """Return the columns to read from a golden data file."""
    ids = facts.get("field_ids") or range(len(facts["columns"]))
    return [
        Field(name, parse(text), id=number)
        for name, text, number in zip(facts["columns"], facts["types"], ids, strict=True)
    ]


def scan_golden_file(
    format_name: str, path: str, fields: list[Field], *, data: bytes | None = None, unit: str | None = None
) -> pl.LazyFrame:
    """Return the rows of a data file, from its bytes `data`; None: from the file at `path`."""

    def read(_: str) -> Any:
        return path if data is None else data

    scans: dict[str, Callable[[], pl.LazyFrame]] = {
        "parquet": lambda: (
            parquet.scan([path], fields, paths=[path], timestamp_unit=unit)
            if data is None
            else parquet.scan_bytes([path], fields, read=read, timestamp_unit=unit)
        ),
        "orc": lambda: orc.scan([path], fields, read=read),
        "avro": lambda: avro.scan([path], fields, read=read),
    }
    return scans[format_name]()


def check_data_files(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats data_file_*: all rows in order, the first rows, the row count, and one column alone."""
    fields = projected_fields(facts)
    unit = "us" if (facts["format"], facts["case"]) == ("data_file_parquet", "all_types") else None  # times before 1677
    path = str(fixtures("formats") / "formats" / facts["format"] / f"{facts['case']}.bin")
    rows = [("+I", tuple(_truncate_timestamps(row, fields) if unit else row)) for row in facts["rows"]]
    for content in (None, data) if facts["file_format"] != "avro" else (data,):
        frame = scan_golden_file(facts["file_format"], path, fields, data=content, unit=unit)
        for what, frame_read, wanted in (
            ("rows", frame.collect(), rows),
            ("the first two rows", frame.head(2).collect(), rows[:2]),
        ):
            wrong = describe_difference(frame_read, _recorded_read(facts, fields, wanted), ordered=True)
            if wrong is not None:
                raise Mismatch(what, "the recorded rows", wrong)
        check_equal("how many rows", frame.select(pl.len()).collect().item(), len(rows))
        last = frame.select(col(fields[-1].name)).with_row_index("n").filter(pl.col("n") == len(rows) - 1).collect()
        check_equal(
            "one column",
            last.equals(frame.collect().select(col(fields[-1].name)).with_row_index("n").tail(1)),
            expected=True,
        )


def _recorded_read(facts: dict[str, Any], fields: list[Field], rows: list[Any]) -> Read:
    types = tuple(field.type for field in fields)
    return Read(
        name=facts["case"],
        branch=None,
        system=None,
        options={},
        columns=tuple(facts["columns"]),
        types=types,
        rows=tuple(rows),
        error=None,
    )


def _truncate_timestamps(row: list[Any], fields: list[Field]) -> list[Any]:
    """Return a row with timestamps cut toward zero, as Polars cuts INT96."""
    fine = [field.type.root.startswith("TIMESTAMP") and (field.type.precision or 0) > 6 for field in fields]
    return [
        _truncate_to_micros(value) if cut and value is not None else value for value, cut in zip(row, fine, strict=True)
    ]


def _truncate_to_micros(value: list[int]) -> list[int]:
    nanos = value[0] * 1_000_000 + value[1]
    micros = abs(nanos) // 1000 * (1 if nanos >= 0 else -1)
    return [micros // 1000, micros % 1000 * 1000]


# ---- checks ------------------------------------------------------------


_EPOCH = date(1970, 1, 1)


def check_deletion_vectors(facts: dict[str, Any], data: bytes) -> None:
    """Check the format deletion_vectors: the positions, all together and for each entry, and the file's bytes."""
    wanted = [
        np.concatenate([np.arange(a, b + 1, step) for a, b, step in v["runs"]] or [np.zeros(0, np.int64)])
        for v in facts["vectors"]
    ]
    check_equal(
        "positions",
        [vector_positions.tolist() for vector_positions in index_files.decode_vector_file(data)],
        [positions.tolist() for positions in wanted],
    )
    if facts["origin"] == "reference":  # by hand: what no writer makes and every reader takes
        written, ranges = index_files.encode_vector_file(wanted, facts["bits"])
        check_equal("the file written again", written.hex(), data.hex())
        check_equal(
            "places of the vectors",
            [tuple(span) for span in ranges],
            [(v["f1"], v["f2"], v["cardinality"]) for v in facts["vectors"]],
        )
    for number, (vector, positions) in enumerate(zip(facts["vectors"], wanted, strict=True)):
        entry = data[vector["f1"] : vector["f1"] + vector["f2"] + index_files.ENTRY_OVERHEAD_BYTES]
        check_equal(
            f"vector {number}",
            index_files.decode_vector_entry(entry, max_positions=len(positions)).tolist(),
            positions.tolist(),
        )


def check_hash_indexes(facts: dict[str, Any], data: bytes) -> None:
    """Check the format hash_index: the hashes, and the file's bytes."""
    check_equal("hashes", index_files.decode_hash_index(data).tolist(), facts["hashes"])
    check_equal(
        "the file written again", index_files.encode_hash_index(np.array(facts["hashes"], np.int32)).hex(), data.hex()
    )


def check_index_containers(facts: dict[str, Any], data: bytes) -> None:
    """Check the format file_index_container: the index payloads of each column."""
    meaning = {
        column: {kind: None if text is None else bytes.fromhex(text) for kind, text in kinds.items()}
        for column, kinds in facts["columns"].items()
    }
    check_equal("indexes", container.decode_container(data), meaning)
    check_equal("indexes written again", container.decode_container(container.encode_container(meaning)), meaning)
    if facts["origin"] != "hand":
        check_equal("size written again", len(container.encode_container(meaning)), len(data))


def check_file_indexes(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats file_index_*: the bytes built from the values, and the answer to every probe.

    The recorded bytes and the built bytes must give the same answers.
    """
    index: Any = plugins.load("file_index", facts["index"])
    t = parse(facts["type"])
    values = [internal_value_of(value, t) for value in facts["values"]]
    built = index.build(arrow.to_arrow_array(values, t), t, facts["options"])
    check_equal("size written again", len(built), len(data))
    if facts["index"] != "bitmap":  # the order of bitmaps is that of a Java hash map
        check_equal("written again", built.hex(), data.hex())
    for probe in facts["probes"]:
        leaf = Leaf(
            "c", probe["operator"].replace("<>", "!="), tuple(user_literal_of(value, t) for value in probe["literals"])
        )
        for payload in (data, built):
            _check_probe(index.probe(payload, t, leaf, len(values)), probe, t, values)


def user_literal_of(recorded: Any, t: DataType) -> Any:
    """Return a recorded literal as the Python value that a user would write."""
    if t.root == "DATE":
        return _EPOCH + timedelta(days=recorded)
    if t.root == "TIME":
        return (
            (datetime.min.replace(tzinfo=UTC) + timedelta(milliseconds=recorded)).time()
            if recorded < 86_400_000
            else time.max
        )
    return internal_value_of(recorded, t)


def _check_probe(answer: Any, probe: dict[str, Any], t: DataType, values: list[Any]) -> None:
    """Check an index's answer against the answer of the reference.

    The answers must be equal, with two exceptions: literals 0.0, -0.0 and NaN, which have several bit patterns, and
    timestamps with more digits than the index stores. There the answer must only hold every matching row.
    """
    what = f"{probe['operator']} {probe['literals']}"
    if isinstance(probe["result"], str):
        check_equal(what, answer, probe["result"] == "remain")
        return
    recorded = {
        row for run in probe["result"] for row in ([run] if isinstance(run, int) else range(run[0], run[1] + 1))
    }
    rows = set(range(len(values))) if answer is True else set() if answer is False else set(answer)
    literals = [internal_value_of(value, t) for value in probe["literals"]]
    two_forms = any(isinstance(value, float) and (value == 0 or math.isnan(value)) for value in literals)
    if not two_forms and not (t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (t.precision or 0) > 6):
        check_equal(what, sorted(rows), sorted(recorded))
        return
    needed = recorded
    if probe["operator"] in ("<>", "not in"):
        needed = {i for i, value in enumerate(values) if value is not None and value not in literals}
    elif probe["operator"] not in ("=", "in"):
        needed = {i for i in recorded if values[i] not in literals}
    if not rows >= needed:
        raise Mismatch(f"{what}, rows that may match", sorted(needed), sorted(rows))


# ---- checks ------------------------------------------------------------


CHECK_OF_FORMAT: dict[str, Callable[[dict[str, Any], bytes], None]] = {
    "binary_array": check_arrays_and_maps,
    "binary_map": check_arrays_and_maps,
    "binary_row": check_binary_rows,
    "bucket": check_buckets,
    "cast": check_casts,
    "changelog": metadata.check_snapshots,
    "commit_message": metadata.check_commit_messages,
    "consumer": metadata.check_consumers,
    "data_split": metadata.check_splits,
    "deletion_vectors": check_deletion_vectors,
    "file_index_container": check_index_containers,
    "hash_index": check_hash_indexes,
    "hint": metadata.check_hints,
    "index_manifest": metadata.check_index_manifests,
    "manifest": metadata.check_manifests,
    "manifest_committable": metadata.check_committables,
    "manifest_list": metadata.check_manifest_lists,
    "schema": metadata.check_schemas,
    "serialized_row": check_binary_rows,
    "simple_stats": check_stats,
    "snapshot": metadata.check_snapshots,
    "statistics": metadata.check_statistics,
    "tag": metadata.check_tags,
    **dict.fromkeys(("data_file_avro", "data_file_orc", "data_file_parquet"), check_data_files),
    **dict.fromkeys(
        ("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"),
        check_file_indexes,
    ),
}
UNSUPPORTED_FORMATS = {"blob_file": "blob files are refused by name: `lakekit features blob`"}
"""Formats with golden files that lakekit does not read, and why."""


def check_golden_file(path: Path) -> None:
    """Check that a golden file is decoded correctly, and, where its bytes are canonical, encoded to the same bytes.

    Raises: `Mismatch`, or the error of a decoder.
    """
    facts, data = load_case(path)
    CHECK_OF_FORMAT[facts["format"]](facts, data)


# ---- broken ------------------------------------------------------------


PLACEHOLDER_PATH = "the file"
"""The path that decoders put in errors about damaged bytes."""


def _parse_types(facts: dict[str, Any]) -> list[Any]:
    return [parse(text) for text in facts["types"]]


def _decode_serialized_row(data: bytes, facts: dict[str, Any]) -> Any:
    return binary_row.decode_row(
        binary_row.strip_arity(data, path=PLACEHOLDER_PATH)[1], _parse_types(facts), path=PLACEHOLDER_PATH
    )


def _decode_index(data: bytes, facts: dict[str, Any]) -> Any:
    index: Any = plugins.load("file_index", facts["index"])
    return [index.probe(data, parse(facts["type"]), Leaf("c", op, (1,)), facts["row_count"]) for op in ("=", ">")]


def _data_file(data: bytes, facts: dict[str, Any]) -> Any:
    return scan_golden_file(
        facts["format"].rpartition("_")[2], PLACEHOLDER_PATH, projected_fields(facts), data=data
    ).collect()


DECODER_OF_FORMAT: dict[str, Callable[[bytes, dict[str, Any]], Any]] = {
    "snapshot": lambda data, _: Snapshot.from_json(data, PLACEHOLDER_PATH),
    "schema": lambda data, _: TableSchema.from_json(data, PLACEHOLDER_PATH),
    "tag": lambda data, _: Tag.from_json(data, "a", PLACEHOLDER_PATH),
    "consumer": lambda data, _: Consumer.from_json(data, PLACEHOLDER_PATH),
    "statistics": lambda data, _: Statistics.from_json(data, PLACEHOLDER_PATH),
    "manifest_list": lambda data, _: manifests.decode_list(data, path=PLACEHOLDER_PATH),
    "manifest": lambda data, _: entry_files.decode_entries([entry_files.ManifestBytes(PLACEHOLDER_PATH, data)]),
    "index_manifest": lambda data, _: index_manifest.decode_index_manifest(data, path=PLACEHOLDER_PATH),
    "binary_row": lambda data, said: binary_row.decode_row(data, _parse_types(said), path=PLACEHOLDER_PATH),
    "serialized_row": _decode_serialized_row,
    "deletion_vectors": lambda data, _: index_files.decode_vector_file(data, path=PLACEHOLDER_PATH),
    "hash_index": lambda data, _: index_files.decode_hash_index(data, path=PLACEHOLDER_PATH),
    "file_index_container": lambda data, _: container.decode_container(data, path=PLACEHOLDER_PATH),
    "data_split": lambda data, _: split.decode_split(data, path=PLACEHOLDER_PATH),
    "commit_message": lambda data, said: commit_message.decode_message(data, said["version"], path=PLACEHOLDER_PATH),
    "manifest_committable": lambda data, said: commit_message.decode_committable(
        data, said["version"], path=PLACEHOLDER_PATH
    ),
    **dict.fromkeys(
        ("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), _decode_index
    ),
    **dict.fromkeys(("data_file_avro", "data_file_orc", "data_file_parquet"), _data_file),
}
"""The decoder of each format, by which damaged bytes are refused: function of (bytes, facts)."""


def check_refusal(facts: dict[str, Any], data: bytes) -> None:
    """Check that damaged bytes are refused with the recorded error.

    Raises: `Mismatch`, or any other error of a decoder.
    """
    expected: type[errors.LakekitError] = getattr(errors, facts["error"].partition(":")[0])
    try:
        DECODER_OF_FORMAT[facts["format"]](data, facts)
    except expected as refusal:
        for part in ("field", "offset"):
            if facts[part] is not None:
                check_equal(f"{part} of the refusal", getattr(refusal, part), facts[part])
        return
    raise Mismatch("damaged bytes", expected.__name__, "a value")
