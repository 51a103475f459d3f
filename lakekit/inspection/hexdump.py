"""The bytes of a Paimon file with the fields that its decoder reads: `lk.hex`.

lk.hex("orders/manifest/manifest-31c0-0")       4f 62 6a 01   magic
                                                04            metadata count 2 …
h.marks                                         a frame: offset, length, field, value, section
h.open(1204)                                    the inflated bytes of a compressed block, the same way
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import plugins, storage as storages
from lakekit.codec.cursor import FieldSpan, SpanRecorder, innermost_spans
from lakekit.draw import hexdump as draw
from lakekit.errors import Corrupt, InvalidOption, LakekitError, LimitExceeded, NotFound, StorageFailed, Unsupported
from lakekit.inspection import hexdump_formats
from lakekit.inspection.hexdump_formats import WalkRequest
from lakekit.metadata import schemas
from lakekit.metadata.table_context import open_context
from lakekit.options.option import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.inspection.hexdump_formats import CompressedBlock
    from lakekit.storage import PathLike
    from lakekit.types import DataType, Field

MAX_BYTES = 256 << 20
"""The size of the largest file that is shown."""
SPANS_SCHEMA = {"offset": pl.Int64, "length": pl.Int64, "field": pl.String, "value": pl.String, "section": pl.String}
_MAX_DEPTH = 10
"""The most folders between a file and its table: partitions make the path long."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Hex:
    """The bytes of a file and what each of them is.

    `spans` are the marks: disjoint, in order, all bytes covered. `error` is what the decoder raised, at byte
    `error_at`; bytes that it did not read are called "not read". `opens` are the offsets of compressed blocks, which
    `open` shows inflated. Shows itself as a widget in notebooks that have ipywidgets.
    """

    name: str
    path: str | None
    format: str
    data: bytes
    spans: tuple[FieldSpan, ...]
    error: LakekitError | None = None
    error_at: int | None = None
    regions: Mapping[int, CompressedBlock] = field(default=EMPTY, compare=False)
    fields: Mapping[str, Sequence[Field]] = field(default=EMPTY, compare=False)

    @property
    def marks(self) -> pl.DataFrame:
        """Return one row a field: offset and length in bytes, name, value as text, section of the format.

        The section is that of the format's description.
        """
        rows = [
            (mark.offset, mark.length, mark.field, draw.format_value(mark.value), mark.section) for mark in self.spans
        ]
        if self.error is not None:
            at = len(self.data) if self.error_at is None else self.error_at
            rows.insert(sum(row[0] < at for row in rows), (at, 0, "error", str(self.error), ""))
        return pl.DataFrame(rows, schema=SPANS_SCHEMA, orient="row")

    @property
    def opens(self) -> tuple[int, ...]:
        """The offsets of compressed blocks."""
        return tuple(self.regions)

    def at(self, offset: int) -> FieldSpan:
        """Return the field of a byte.

        Raises: `IndexError` outside of the file.
        """
        if not 0 <= offset < len(self.data):
            raise IndexError(f"byte {offset} of {len(self.data)}")
        return self.spans[draw.first_span_ending_after(self.spans, offset)]

    def open(self, offset: int | None = None) -> Hex:
        """Return the inflated bytes of the compressed block at a byte, or of the first one.

        Raises: `NotFound` if there is none.
        """
        wanted = next(iter(self.regions), None) if offset is None else self.at(offset).offset
        region = None if wanted is None else self.regions.get(wanted)
        if region is None:
            offsets = ", ".join(map(str, self.opens)) or "none"
            raise NotFound(
                f"{self.name}: no compressed block at byte {offset}; their offsets are {offsets}", name=str(offset)
            )
        spans = SpanRecorder(section=hexdump_formats.HEX_FORMATS[self.format].spec_section)
        error: LakekitError | None = None
        try:
            hexdump_formats.record_block_spans(region, spans, self.fields)
        except LakekitError as wrong:
            error = wrong
        return _build_hex(f"{self.name} block at {wanted}", None, self.format, region.block.data, spans, error)

    def __hash__(self) -> int:
        return hash((self.name, self.path, self.format, self.data))

    def __repr__(self) -> str:
        return draw.hexdump_text(self.title, self.data, self.spans, error_text=self.error_line)

    def _repr_html_(self) -> str:
        return draw.hexdump_html(self.title, self.data, self.spans, error_text=self.error_line)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return the widget where ipywidgets is installed; a table and characters everywhere else."""
        try:
            bundle: dict[str, Any] = plugins.load("notebook", "hexdump").Bytes(self)._repr_mimebundle_()
        except Unsupported:
            bundle = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        return bundle

    @property
    def title(self) -> str:
        """Name, format, size and number of fields, in one line."""
        return draw.hexdump_title(self.name, self.format, len(self.data), len(self.spans))

    @property
    def error_line(self) -> str:
        """The error in a line, "" without one."""
        if self.error is None:
            return ""
        where = "" if self.error_at is None else f" at byte {self.error_at}"
        return f"{type(self.error).__name__}{where}: {self.error}"


def hex(  # noqa: A001 - the name of a contract
    path_or_bytes: str | PathLike | bytes | bytearray | memoryview,
    *,
    format: str | None = None,  # noqa: A002 - as hex
    storage_options: Mapping[str, Any] | None = None,
) -> Hex:
    """Return the bytes of a Paimon file, every one with its field, value and section of the format.

    Files of tables, parts of them, and messages between processes can be shown. `format` names what cannot be told from
    name and bytes: "binary_row: ROW<id BIGINT>", "serialized_row", "commit_message: 11"; `InvalidOption` lists the
    names. `storage_options` are those of an object store. Of a broken file, the part that could be read is shown, with
    the error.

    Raises: `FileMissing` without a file, `StorageFailed` for a folder, `LimitExceeded` above 256 MiB, `TypeError` for
    what is neither a path nor bytes.
    """
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        name, path, data = "bytes", None, bytes(path_or_bytes)
    else:
        path, data = _read_file(path_or_bytes, storage_options)
        name = path.rpartition("/")[2]
    short, how, argument = hexdump_formats.parse_format_argument(
        hexdump_formats.detect_format(data, path or "") if format is None else format
    )
    fields, types = _read_table_types(path, storage_options)
    spans = SpanRecorder(section=how.spec_section)
    regions: dict[int, CompressedBlock] = {}
    error: LakekitError | None = None
    try:
        how.walk(
            WalkRequest(
                data=data,
                spans=spans,
                argument=argument,
                row_fields=fields,
                column_types=types,
                compressed_blocks=regions,
                path=path,
            )
        )
    except (Corrupt, Unsupported) as wrong:
        error = wrong
    view = _build_hex(name, path, short, data, spans, error)
    return Hex(
        name=name,
        path=path,
        format=short,
        data=data,
        spans=view.spans,
        error=error,
        error_at=view.error_at,
        regions=FrozenDict(regions),
        fields=fields,
    )


def _read_file(location: str | PathLike, storage_options: Mapping[str, Any] | None) -> tuple[str, bytes]:
    """Return the path of a file and its bytes. Raises `FileMissing`, `StorageFailed`, `LimitExceeded`."""
    storage, path = storages.open(location, storage_options)
    stat = storage.stat(path)
    if stat is not None and stat.is_dir:
        raise StorageFailed(f"{path} is a folder; lk.hex takes one of its files", path=path)
    if stat is not None and stat.size_bytes > MAX_BYTES:
        msg = (
            f"{path}: {stat.size_bytes} bytes; at most {MAX_BYTES} are shown one by one. lk.hex(data, format=…) "
            "takes a part of them, as bytes"
        )
        raise LimitExceeded(msg, path=path)
    return path, storage.read(path)


def _build_hex(
    name: str, path: str | None, short: str, data: bytes, spans: SpanRecorder, error: LakekitError | None
) -> Hex:
    found = innermost_spans(spans.spans, len(data))
    at = spans.wrong_at
    if at is None and isinstance(error, Corrupt):
        at = error.offset
        if at is None and error.field:  # a member of JSON: errors name it, spans know where it is
            at = next((mark.offset for mark in found if mark.field == error.field), None)
    return Hex(
        name=name,
        path=path,
        format=short,
        data=data,
        spans=tuple(found),
        error=error,
        error_at=None if at is None else min(max(at, 0), len(data)),
    )


def _read_table_types(
    path: str | None, storage_options: Mapping[str, Any] | None
) -> tuple[Mapping[str, Sequence[Field]], Mapping[str, DataType]]:
    """Return the types of the rows in a file from its table: fields of partitions, keys, columns.

    Both mappings are empty for a file outside of a table.
    """
    pieces = (path or "").split("/")
    for depth in range(2, min(len(pieces), _MAX_DEPTH)):
        root = "/".join(pieces[: 1 - depth])
        try:
            storage, root_path = storages.open(root or "/", storage_options)
        except InvalidOption:
            break  # above a bucket there is nothing
        if not any(item.name.startswith("schema-") for item in storage.list(f"{root_path}/schema")):
            continue
        try:
            ctx = open_context(root, storage_options=storage_options)
            every = {f"schema {item.id}": item.fields for item in schemas.read_all(ctx)}
        except LakekitError:
            break
        schema = ctx.schema
        day, keys = schema.partition_fields, schema.key_fields
        rows = every | {
            "_PARTITION": day,
            "partition": day,
            "_PARTITION_STATS": day,
            "_MIN_KEY": keys,
            "_MAX_KEY": keys,
            "_KEY_STATS": keys,
        }
        return FrozenDict(rows), FrozenDict({item.name: item.type for item in schema.fields})
    return EMPTY, EMPTY
