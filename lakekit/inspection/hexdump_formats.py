"""The formats of `lk.hex`: one name and decoder for each, and how a file's format is recognized.

    manifest            the decoder of manifests, with spans
    commit_message: 11  a format whose bytes do not say their version, or their type, takes it after a colon
    binary_row: ROW<day DATE, id BIGINT>

Every walker is the decoder that tables are read with, over a cursor that records the fields it reads. Three formats are
decoded by C and Rust libraries that report no offsets: JSON, Parquet and (in part) ORC have walkers of their own, which
tests compare with those libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lakekit import plugins
from lakekit.codec import avro_columns, avro_container, binary_row, binary_value, index_files, orc_tail
from lakekit.codec.binary_value import BoundedSlice
from lakekit.codec.cursor import PADDING_LABEL, Cursor
from lakekit.errors import Corrupt, InvalidOption, LakekitError, Unsupported
from lakekit.file_index import container
from lakekit.format import parquet_pages
from lakekit.model import (
    commit_message,
    entry_files,
    index_manifest,
    json_codec,
    manifests,
    metadata_records,
    snapshot,
    split,
)
from lakekit.model.snapshot import Consumer, Snapshot, Statistics, Tag
from lakekit.model.table_schema import TableSchema
from lakekit.types import parse, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.codec.avro_container import Block, BlockRange, PackedBlocks
    from lakekit.codec.cursor import SpanRecorder
    from lakekit.types import DataType, Field

    Walk = Callable[["WalkRequest"], None]

MAX_ANNOTATED_BYTES = 16 << 20
"""Records of an uncompressed Avro file beyond this size are marked block by block, when a block is opened."""
ROW_FIELDS = frozenset({"_PARTITION", "_MIN_KEY", "_MAX_KEY", "_MIN_VALUES", "_MAX_VALUES", "partition"})
"""Fields of bytes that hold a serialized row."""
INDEX_SPEC_SECTIONS = {
    "bloom-filter": "FORMAT 9.4",
    "bitmap": "FORMAT 9.5",
    "bsi": "FORMAT 9.6",
    "range-bitmap": "FORMAT 9.7",
}


class CompressedBlock(NamedTuple):
    """A compressed Avro block of a file, and the number of its first record.

    It is kept compressed and inflated each time `block` is read.
    """

    packed_blocks: PackedBlocks
    block_range: BlockRange
    first_record: int

    @property
    def block(self) -> Block:
        """The block, inflated."""
        return next(block for _, block in self.packed_blocks.inflate([self.block_range]))


class WalkRequest(NamedTuple):
    """The input of a walker.

    `argument` is the text after the colon of the format, `row_fields` the fields of serialized rows by the Avro field
    that holds them (`ROW_FIELDS`), `column_types` the types of columns by name. The walker adds each compressed block
    that it passes to `compressed_blocks`, by its offset in the file.
    """

    data: bytes
    spans: SpanRecorder
    argument: str
    row_fields: Mapping[str, Sequence[Field]]
    column_types: Mapping[str, DataType]
    compressed_blocks: dict[int, CompressedBlock]
    path: str | None

    def cursor(self) -> Cursor:
        """Return a cursor over the bytes that records what it reads."""
        return Cursor(self.data, spans=self.spans)


class HexFormat(NamedTuple):
    """One format: the section of FORMAT.md that describes it, and the function that records its spans."""

    spec_section: str
    walk: Walk


def detect_format(data: bytes, name: str) -> str:
    """Return the format of a file's bytes; `name` is the file's path, "" where it has none.

    Raises: `InvalidOption` for an unknown format.
    """
    file = name.rpartition("/")[2]
    for magic, format_name in _FORMATS_BY_MAGIC.items():
        if data.startswith(magic):
            return _detect_avro_kind(data) if format_name == "avro" else format_name
    for beginning, format_name in _FORMATS_BY_NAME.items():
        if file.startswith(beginning):
            return format_name
    if file.endswith(".index"):
        return "file_index_container"
    for ending in ("avro", "orc", "parquet"):
        if file.endswith(f".{ending}"):
            return ending
    if data == b"\x01" or (data[:1] == b"\x01" and data[5:9] in (index_files.MAGIC_32, index_files.MAGIC_64)):
        return "deletion_vectors"
    if file.startswith("index-"):
        return "hash_index" if len(data) % 4 == 0 else "deletion_vectors"
    if data.lstrip()[:1] == b"{":
        return _detect_json_kind(data)
    if file in ("LATEST", "EARLIEST") or snapshot.decode_hint(data) is not None:
        return "hint"
    raise InvalidOption(
        f"{file or 'these bytes'}: begins with {data[:8].hex(' ') or 'nothing'}, which tells no format; give format= "
        f"one of {', '.join(HEX_FORMATS)}",
        key="format",
        value=None,
    )


def _detect_avro_kind(data: bytes) -> str:
    try:
        names = set(avro_container.open_container(data).schema.non_null_type.names)
    except LakekitError:
        head = data[: avro_container.MAX_SCHEMA_BYTES]  # a broken one: by what its schema says, as far as it is there
        names = {name for name in ("_NUM_ADDED_FILES", "_INDEX_TYPE", "_TOTAL_BUCKETS") if name.encode() in head}
    kinds = {"_NUM_ADDED_FILES": "manifest_list", "_INDEX_TYPE": "index_manifest", "_TOTAL_BUCKETS": "manifest"}
    return next((kind for name, kind in kinds.items() if name in names), "avro")


def _detect_json_kind(data: bytes) -> str:
    try:
        members = json_codec.loads(data)
    except LakekitError:
        return "json"
    return next((kind for name, kind in _FORMATS_BY_JSON_MEMBER.items() if name in members), "json")


_FORMATS_BY_MAGIC = {
    avro_container.MAGIC: "avro",
    metadata_records.PARQUET_MAGIC: "parquet",
    metadata_records.ORC_MAGIC: "orc",
    container.MAGIC.to_bytes(8, "big"): "file_index_container",
    split.SPLIT_MAGIC.to_bytes(8, "big", signed=True): "data_split",
}
_FORMATS_BY_NAME = {
    "snapshot-": "snapshot",
    "schema-": "schema",
    "tag-": "tag",
    "consumer-": "consumer",
    "changelog-": "changelog",
    "stat-": "statistics",
    "manifest-list-": "manifest_list",
    "manifest-": "manifest",
    "index-manifest-": "index_manifest",
}
_FORMATS_BY_JSON_MEMBER = {
    "tagCreateTime": "tag",
    "baseManifestList": "snapshot",
    "highestFieldId": "schema",
    "mergedRecordCount": "statistics",
    "colStats": "statistics",
    "nextSnapshot": "consumer",
}


# ---- JSON, hints -----------------------------------------------------------------------------------------------------


def _walk_json(decode: Callable[[bytes, str | None], object]) -> Walk:
    def walk(request: WalkRequest) -> None:
        unread: Corrupt | None = None
        try:
            json_codec.record_json_spans(request.cursor())
        except Corrupt as error:
            unread = error
        decode(request.data, request.path)  # its error says more
        if unread is not None:
            raise unread

    return walk


def _walk_hint(request: WalkRequest) -> None:
    snapshot_id = snapshot.decode_hint(request.data)
    if snapshot_id is None:
        raise Corrupt("no number of a snapshot: readers list the folder instead", offset=0, field="hint")
    request.spans.add(0, len(request.data), "snapshot", snapshot_id)


# ---- Avro ------------------------------------------------------------------------------------------------------------


def _walk_records(decode: Callable[[bytes, str | None], object] | None) -> Walk:
    def walk(request: WalkRequest) -> None:
        if request.data.startswith(metadata_records.PARQUET_MAGIC):
            _walk_parquet(request)
        elif request.data.startswith(metadata_records.ORC_MAGIC):
            _walk_orc(request)
        else:
            _walk_avro(request, avro_container.METADATA_LIMITS if decode else avro_container.DATA_LIMITS)
        if decode is not None:
            decode(request.data, request.path)

    return walk


def _walk_avro(request: WalkRequest, limits: avro_container.Limits) -> None:
    """Mark the frame, and the records of blocks that are not compressed; the others become regions."""
    with request.spans.within(section="FORMAT 4.1"):
        packed = avro_container.read_blocks(request.cursor(), limits)
    first = 0
    for frame, block in packed.inflate():
        region = CompressedBlock(packed, frame, first)
        if packed.codec == "null" and len(request.data) <= MAX_ANNOTATED_BYTES:
            record_block_spans(region, request.spans, request.row_fields, offset=block.offset)
        else:
            request.compressed_blocks[block.offset] = region
        first += block.count


def record_block_spans(
    compressed_block: CompressedBlock,
    spans: SpanRecorder,
    row_fields: Mapping[str, Sequence[Field]],
    *,
    offset: int = 0,
) -> list[dict[str, Any]]:
    """Return the records of a block, marked at their inflated bytes; serialized rows field by field."""
    since, block = len(spans.spans), compressed_block.block
    with spans.within(at=offset):
        cursor = Cursor(block.data, spans=spans)
        records = avro_columns.read_spans(
            compressed_block.packed_blocks.schema, cursor, block.count, first=compressed_block.first_record
        )
    record_row_spans(spans, since, row_fields)
    return records


def record_row_spans(spans: SpanRecorder, first_span: int, fields: Mapping[str, Sequence[Field]]) -> None:
    """Mark the fields of serialized rows and file indexes among the spans from number `first_span` on.

    One that cannot be understood stays as it is.
    """
    stats = _value_stats_columns(spans, first_span, fields)
    for mark in spans.spans[first_span:]:
        outer, _, last = mark.field.rpartition(".")
        if not isinstance(mark.value, bytes) or last not in (*ROW_FIELDS, "_EMBEDDED_FILE_INDEX"):
            continue
        before, wrong_at, cursor = len(spans.spans), spans.wrong_at, Cursor(mark.value, spans=spans)
        try:
            with spans.within(
                mark.field, at=mark.offset, section="FORMAT 9.2" if last == "_EMBEDDED_FILE_INDEX" else "FORMAT 5.6"
            ):
                if last == "_EMBEDDED_FILE_INDEX":
                    _record_container(cursor, {})
                else:
                    row_fields = fields.get(
                        outer.rpartition(".")[2] if last in ("_MIN_VALUES", "_MAX_VALUES") else last
                    )
                    record_one_row_spans(cursor, stats.get(outer, row_fields))
        except LakekitError:
            del spans.spans[before:]
            spans.wrong_at = wrong_at


def _value_stats_columns(
    spans: SpanRecorder, first_span: int, row_fields: Mapping[str, Sequence[Field]]
) -> dict[str, Sequence[Field]]:
    """Return the columns that each `_VALUE_STATS` describes, by the span's name.

    They are all columns of the schema, unless the entry lists some in `_VALUE_STATS_COLS`.
    """
    by_stats: dict[str, Sequence[Field]] = {}
    if row_fields:
        listed: dict[str, list[Any]] = {}
        for mark in spans.spans[first_span:]:
            outer, _, last = mark.field.rpartition(".")
            if last.startswith("_VALUE_STATS_COLS[") and last.endswith("]"):
                listed.setdefault(outer, []).append(mark.value)
        for mark in spans.spans[first_span:]:
            outer, _, last = mark.field.rpartition(".")
            if last == "_SCHEMA_ID" and (
                columns := {field.name: field for field in row_fields.get(f"schema {mark.value}", ())}
            ):
                by_stats[f"{outer}._VALUE_STATS"] = [
                    columns[name] for name in listed.get(outer, columns) if name in columns
                ]
    return by_stats


def record_one_row_spans(cursor: Cursor, fields: Sequence[Field] | None) -> None:
    """Record the spans of a serialized row (with arity).

    Its fields are decoded if `fields` has as many as the row; without them null bits and slots are recorded.

    Raises: `Corrupt`.
    """
    arity = binary_row.read_arity(cursor)
    with cursor.within(at=cursor.tell):
        row = cursor.nested(cursor.data[cursor.tell :])
        if fields is not None and len(fields) == arity:
            _read_fields(row, fields)
        else:
            _record_untyped_row(row, arity)


def _read_fields(cursor: Cursor, fields: Sequence[Field]) -> None:
    """Read row bytes without arity."""
    names = [field.name for field in fields]
    binary_value.decode_row(BoundedSlice.read_remaining(cursor), [field.type for field in fields], names)


def _record_untyped_row(cursor: Cursor, arity: int) -> None:
    """Mark row bytes of unknown types: row kind, null bits, slots as numbers, the rest as bytes."""
    row, width = bytes(cursor.data), binary_value.header_width(arity)
    nulls, end = (arity + 7) // 8, width + 8 * arity
    null_fields = [i for i in range(arity) if row[(i + 8) >> 3] >> ((i + 8) & 7) & 1]
    cursor.record(0, 1, "row kind", row[0], section=binary_value.ROW_SECTION)
    cursor.record(1, nulls, "null bits", null_fields, section=binary_value.ROW_SECTION)
    for i, at in enumerate(range(width, end, 8)):
        cursor.record(at, 8, f"slot {i}", row[at : at + 8], section=binary_value.SLOT_SECTION)
    cursor.record(1 + nulls, width - 1 - nulls, PADDING_LABEL, None)
    cursor.record(end, len(row) - end, "variable part", row[end:], section=binary_value.SLOT_SECTION)


# ---- rows ------------------------------------------------------------------------------------------------------------


def _argument_type(request: WalkRequest, *roots: str) -> DataType:
    if not request.argument:
        raise InvalidOption(
            f"the bytes do not say their type: format='… : {roots[0]}<…>' says it", key="format", value=None
        )
    parsed = _parse_type(request.argument)
    if parsed.root not in roots:
        raise InvalidOption(f"{request.argument} is no {' or '.join(roots)}", key="format", value=request.argument)
    return parsed


def _parse_type(text: str) -> DataType:
    """Return the type after the colon; an error in it is one of `format=`, not of the file."""
    try:
        return parse(text)
    except (Corrupt, Unsupported) as error:
        raise InvalidOption(f"{text!r} is no type: {error}", key="format", value=text) from None


def _walk_row(request: WalkRequest) -> None:
    _read_fields(request.cursor(), _argument_type(request, "ROW").fields)


def _walk_serialized_row(request: WalkRequest) -> None:
    record_one_row_spans(request.cursor(), _argument_type(request, "ROW").fields if request.argument else None)


def _walk_array(request: WalkRequest) -> None:
    binary_value.decode_array(
        BoundedSlice.read_remaining(request.cursor()), part(_argument_type(request, "ARRAY").element)
    )


def _walk_map(request: WalkRequest) -> None:
    binary_value.decode_map(BoundedSlice.read_remaining(request.cursor()), _argument_type(request, "MAP", "MULTISET"))


# ---- indexes ---------------------------------------------------------------------------------------------------------


def _walk_index(kind: str) -> Walk:
    def walk(request: WalkRequest) -> None:
        plugins.load("file_index", kind).walk(
            request.cursor(), _parse_type(request.argument) if request.argument else None
        )

    return walk


def _record_container(cursor: Cursor, types: Mapping[str, DataType]) -> None:
    """Mark a file index container and the payloads of known index kinds. Raises `Corrupt`."""
    spans, data = cursor.spans, bytes(cursor.data)
    assert spans is not None
    since = len(spans.spans)
    for column, kinds in container.read_toc_at(cursor).items():
        for kind, span in kinds.items():
            if span is not None:
                payload = container.read_payload(data, span)
                spans.add(span.start, span.length, f"{column} {kind}", payload)
                _record_payload(kind, payload, span.start, f"{column} {kind}", spans, types.get(column))
    spans.fill(0, len(data), since=since)  # bytes that no column points at


def _record_payload(kind: str, payload: bytes, offset: int, name: str, spans: SpanRecorder, t: DataType | None) -> None:
    before, wrong_at = len(spans.spans), spans.wrong_at
    try:
        walk = getattr(plugins.load("file_index", kind), "walk", None)
        with spans.within(name, at=offset, section=INDEX_SPEC_SECTIONS.get(kind, "")):
            if walk is not None:
                walk(Cursor(payload, spans=spans), t)
    except LakekitError as error:  # one index that cannot be read leaves the others: its bytes stay one mark
        del spans.spans[before:]
        spans.wrong_at = wrong_at
        spans.set_meaning(f"cannot be read: {error}")


def _walk_file_indexes(request: WalkRequest) -> None:
    _record_container(request.cursor(), request.column_types)


def _walk_hashes(request: WalkRequest) -> None:
    cursor = request.cursor()
    for i in range(cursor.remaining // 4):
        cursor.i32be(f"hash {i}")
    index_files.decode_hash_index(request.data)


def _walk_deletion_vectors(request: WalkRequest) -> None:
    index_files.read_vectors(request.cursor())


# ---- data files, messages --------------------------------------------------------------------------------------------


def _walk_parquet(request: WalkRequest) -> None:
    parquet_pages.record_footer(request.cursor())


def _walk_orc(request: WalkRequest) -> None:
    orc_tail.record_tail(request.cursor())


def _walk_message(read: Callable[[Cursor, int], object], newest_version: int, message_name: str) -> Walk:
    def walk(request: WalkRequest) -> None:
        if request.argument and not request.argument.isdecimal():
            raise InvalidOption(f"{request.argument!r} is no version", key="format", value=request.argument)
        cursor = request.cursor()
        try:
            read(cursor, int(request.argument or newest_version))
            cursor.expect_end(message_name)
        finally:
            record_row_spans(request.spans, 0, request.row_fields)

    return walk


def _walk_split(request: WalkRequest) -> None:
    cursor = request.cursor()
    try:
        split.read_split(cursor)
        cursor.expect_end("split")
    finally:
        record_row_spans(request.spans, 0, request.row_fields)


def _decode_entries(data: bytes, path: str | None) -> object:
    return entry_files.decode_entries([entry_files.ManifestBytes(path or "the manifest", data)])


HEX_FORMATS: dict[str, HexFormat] = {
    "snapshot": HexFormat("FORMAT 3.1", _walk_json(Snapshot.from_json)),
    "changelog": HexFormat("FORMAT 3.8", _walk_json(Snapshot.from_json)),
    "schema": HexFormat("FORMAT 2.1", _walk_json(TableSchema.from_json)),
    "tag": HexFormat("FORMAT 3.4", _walk_json(lambda data, path: Tag.from_json(data, "tag", path))),
    "consumer": HexFormat("FORMAT 3.7", _walk_json(Consumer.from_json)),
    "statistics": HexFormat("FORMAT 3.6", _walk_json(Statistics.from_json)),
    "json": HexFormat("", _walk_json(json_codec.loads)),
    "hint": HexFormat("FORMAT 1.6", _walk_hint),
    "manifest_list": HexFormat("FORMAT 4.2", _walk_records(lambda data, path: manifests.decode_list(data, path=path))),
    "manifest": HexFormat("FORMAT 4.3", _walk_records(_decode_entries)),
    "index_manifest": HexFormat(
        "FORMAT 4.4", _walk_records(lambda data, path: index_manifest.decode_index_manifest(data, path=path))
    ),
    "binary_row": HexFormat("FORMAT 5.1", _walk_row),
    "serialized_row": HexFormat("FORMAT 5.6", _walk_serialized_row),
    "binary_array": HexFormat("FORMAT 5.4", _walk_array),
    "binary_map": HexFormat("FORMAT 5.5", _walk_map),
    "deletion_vectors": HexFormat("FORMAT 8.1", _walk_deletion_vectors),
    "hash_index": HexFormat("FORMAT 6.4", _walk_hashes),
    "file_index_container": HexFormat("FORMAT 9.2", _walk_file_indexes),
    **{
        f"file_index_{kind.replace('-', '_')}": HexFormat(section, _walk_index(kind))
        for kind, section in INDEX_SPEC_SECTIONS.items()
    },
    "avro": HexFormat("FORMAT 7.6", _walk_records(None)),
    "parquet": HexFormat("FORMAT 7.4", _walk_parquet),
    "orc": HexFormat("FORMAT 7.5", _walk_orc),
    "data_split": HexFormat("FORMAT 12", _walk_split),
    "commit_message": HexFormat(
        "FORMAT 12", _walk_message(commit_message.read_message, commit_message.MESSAGE_VERSION, "commit message")
    ),
    "manifest_committable": HexFormat(
        "FORMAT 12",
        _walk_message(commit_message.read_committable, commit_message.COMMITTABLE_VERSION, "committable"),
    ),
}
"""The formats of `lk.hex`, by the name that its `format=` takes."""


def parse_format_argument(text: str) -> tuple[str, HexFormat, str]:
    """Return (name, format, text after the colon) of a `format=`.

    A Paimon type without a name before it, such as `ROW<…>`, means the format of its bytes: a row, an array or a map.

    Raises: `InvalidOption`.
    """
    name, _, argument = (piece.strip() for piece in text.partition(":"))
    if name in HEX_FORMATS:
        return name, HEX_FORMATS[name], argument
    for root, short in {
        "ROW": "binary_row",
        "ARRAY": "binary_array",
        "MAP": "binary_map",
        "MULTISET": "binary_map",
    }.items():
        if text.strip().upper().startswith(f"{root}<"):
            return short, HEX_FORMATS[short], text.strip()
    raise InvalidOption(f"no format is called {name!r}; there are {', '.join(HEX_FORMATS)}", key="format", value=text)
