"""Lazy scans of files that Polars cannot scan itself.

    scan(paths, open_file, schema)        open_file(path) -> OpenFile(row_count, batches)

A format converts a file's blocks to frames; Polars opens several files side by side, adds row numbers, filters and
slices; the columns a query needs are passed to `batches`. Nothing is opened before the frame runs. Whatever a library
raises over damaged bytes becomes `Corrupt` with the file's path; lakekit's own errors pass unchanged, as does an
interrupt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from polars.io.external_reader import FileReader, FileReaderBuilder

from lakekit.columns import is_of_machine, pass_interrupt, struct_field
from lakekit.errors import Corrupt, LakekitError, StorageFailed
from lakekit.types import DataType, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FOREIGN_FAILURES = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,
    UnicodeDecodeError,
)
"""What Polars and pyarrow raise over bytes that break a format."""
_POISONED_MESSAGE = "previously been poisoned"
"""What Polars panics with after its threads or its input could not be started, until the process ends."""
_OTHER_TYPE = re.compile(r"data type mismatch for column (.*): incoming: (.*) != target: (.*)")
_FILE_MESSAGE = re.compile(
    r"parquet|thrift|zstd|snappy|gzip|lz4|brotli|avro|utf-?8|specification|decompress|corrupt", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """An open file: its row count, and some columns of its rows, block by block.

    `batches` takes the names to read, in order; for no names it yields frames without columns that have the blocks'
    heights.
    """

    row_count: int
    batches: Callable[[Sequence[str]], Iterator[pl.DataFrame]]


def scan(
    paths: Sequence[str],
    open_file: Callable[[str], OpenFile],
    schema: pl.Schema,
    *,
    name: str,
    counts: Mapping[str, int] | None = None,
) -> pl.LazyFrame:
    """Return all rows of `paths`, in order, with the columns `schema`.

    `name` is the format's, for plans that are printed. `counts` are the rows each file must have.
    """

    def open_checked(path: str) -> OpenFile:
        opened = open_file(path)
        if counts is not None:
            check_count(path, opened.row_count, counts[path])
        return opened

    return pl.scan_external_reader(_Builder(open_checked, schema, name), sources=list(paths), schema=schema)


def check_count(path: str, row_count: int, expected: int) -> None:
    """Raise `Corrupt` for a file with another number of rows than its manifest says."""
    if row_count != expected:
        raise Corrupt(f"{path} holds {row_count} rows, the manifest says {expected}", path=path, field="_ROW_COUNT")


def describe_machine_error(error: BaseException) -> str:
    """Return the machine's error as a text, with advice if Polars could not start in this process."""
    text = str(error).strip()[:300]
    if _POISONED_MESSAGE not in text:
        return text
    return f"{text}. Polars could not start in this process, for want of handles or memory: begin another process"


def may_be_file_damage(error: BaseException) -> bool:
    """Return whether a query may have failed because of a file's bytes, and not because of the query or the machine."""
    if is_of_machine(error):
        return False
    if isinstance(error, pl.exceptions.SchemaError):
        return parse_type_mismatch(error) is not None
    return not isinstance(error, pl.exceptions.PolarsError) or (
        isinstance(error, pl.exceptions.ComputeError) and _FILE_MESSAGE.search(str(error)) is not None
    )


def parse_type_mismatch(error: BaseException) -> tuple[str, str, str] | None:
    """Return (column, type in the file, wanted type) of an error over a column stored as another type.

    Returns None for any other error.
    """
    match = _OTHER_TYPE.search(str(error)) if isinstance(error, pl.exceptions.SchemaError) else None
    return None if match is None else (match[1], match[2], match[3])


def to_corrupt(path: str, error: BaseException, subject: str) -> LakekitError:
    """Return the error for what a library raised over the bytes of `path`.

    It is `Corrupt`, or `StorageFailed` if the machine refused something. One of lakekit's own stays what it is, and
    names the path. An interrupt is raised.
    """
    pass_interrupt(error)
    if isinstance(error, Corrupt):
        return error.at(path)
    if isinstance(error, LakekitError):
        return error
    if is_of_machine(error):
        return StorageFailed(f"{path} could not be read: {describe_machine_error(error)}", path=path)
    text = str(error).strip().splitlines()
    return Corrupt(
        f"{path}: its {subject} data cannot be decoded: {text[0][:300] if text else type(error).__name__}",
        path=path,
        field=subject,
    )


class _Builder(FileReaderBuilder):
    def __init__(self, open_file: Callable[[str], OpenFile], schema: pl.Schema, name: str) -> None:
        self.open_file, self.frame_schema, self.name = open_file, schema, name

    def build_file_reader(self, source: str | bytes, multi_scan_context: dict[Any, Any]) -> FileReader:
        del multi_scan_context
        return _Reader(self, str(source))

    def explain_properties(self) -> dict[str, str]:
        return {"format": self.name}


class _Reader(FileReader):
    def __init__(self, builder: _Builder, path: str) -> None:
        self.builder, self.path = builder, path
        self.open_file: OpenFile | None = None

    def schema(self) -> Any:
        return self.builder.frame_schema

    def _open_source(self) -> OpenFile:
        if self.open_file is None:
            try:
                self.open_file = self.builder.open_file(self.path)
            except (LakekitError, *FOREIGN_FAILURES) as error:
                raise to_corrupt(self.path, error, self.builder.name) from error
        return self.open_file

    def collect_batches(
        self, *, columns: Sequence[str], row_index: Any, pre_slice: Any, filters: Any, num_pipelines: int
    ) -> Iterator[pl.DataFrame]:
        del row_index, pre_slice, filters, num_pipelines  # never given: this reader claims no capability
        opened, decoded = self._open_source(), 0
        try:
            for batch in opened.batches(columns):
                self._check_types(batch)
                decoded += batch.height
                yield batch
        except (LakekitError, *FOREIGN_FAILURES) as error:
            raise to_corrupt(self.path, error, self.builder.name) from error
        if decoded != opened.row_count:
            raise Corrupt(
                f"{self.path}: {decoded} rows were decoded, its footer says {opened.row_count}",
                path=self.path,
                field="row count",
            )

    def _check_types(self, batch: pl.DataFrame) -> None:
        """Raise `Corrupt` if a column has another type than the schema says, as a ROW of more parts."""
        for name, dtype in batch.schema.items():
            if dtype != self.builder.frame_schema[name]:
                expected = self.builder.frame_schema[name]
                raise Corrupt(
                    f"{self.path}: column {name} is read as {expected}, the file holds {dtype}",
                    path=self.path,
                    field=name,
                )

    def n_rows_in_file(self, limit: int | None = None) -> int:
        del limit
        return self._open_source().row_count

    def on_drop(self) -> None:
        self.open_file = None


# ---- values inside values --------------------------------------------------------------------------------------------


def map_leaves(column: pl.Expr, t: DataType, leaf: Callable[[pl.Expr, DataType], pl.Expr | None]) -> pl.Expr | None:
    """Return `column` with every plain value in it, at any depth, changed by `leaf`.

    `leaf` returns None for a type that it does not change; the result is None if it changes none.
    """
    match t.root:
        case "ARRAY":
            inner = map_leaves(pl.element(), part(t.element), leaf)
            return None if inner is None else column.list.eval(inner)
        case "MAP" | "MULTISET":
            key = map_leaves(
                pl.element().struct.field("key"), part(t.key) if t.root == "MAP" else part(t.element), leaf
            )
            value = map_leaves(pl.element().struct.field("value"), part(t.value), leaf) if t.root == "MAP" else None
            if key is None and value is None:
                return None
            keys = pl.element().struct.field("key") if key is None else key
            values = pl.element().struct.field("value") if value is None else value
            return column.list.eval(pl.struct(keys.alias("key"), values.alias("value")))
        case "ROW":
            changed = [map_leaves(struct_field(column, f.name), f.type, leaf) for f in t.fields]
            if all(changed_part is None for changed_part in changed):
                return None
            parts = [
                struct_field(column, f.name) if changed_part is None else changed_part
                for f, changed_part in zip(t.fields, changed, strict=True)
            ]
            changed_row = pl.struct(changed_part.alias(f.name) for changed_part, f in zip(parts, t.fields, strict=True))
            return pl.when(column.is_not_null()).then(changed_row)
    return leaf(column, t)
