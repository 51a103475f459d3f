"""Write a format table: files made beside the others, which all appear at the end.

    append       new files in the folders of their rows' partitions
    overwrite    the same, and the files that were there before are deleted: those of the partition that is named,
                 of the partitions that are written, or all

    data-<uuid>-<n>.csv      data-<uuid>-<n>.csv.gz      data-<uuid>-<n>.parquet

Files are finished under hidden names, and become visible once all of them are complete; what an overwrite replaces is
deleted after that, so that nothing is lost wherever it stops (the reference deletes first). If anything fails before,
no file is left. Readers see files come one by one: there is no snapshot. The compression is `file.compression` if the
table sets it, else `format-table.file.compression`, else `compression`; without any, Parquet is compressed by snappy,
ORC by zstd, and text not at all.

Source: ENGINE.md 9.6; `FormatTableWrite`, `FormatTableFileWriter`, `FormatTableCommit`, `RenamingTwoPhaseOutputStream`,
`AbstractTextFileWriter`, `CoreOptions.formatTableFileCompression`.
"""

from __future__ import annotations

import io
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field as member
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lakekit.columns import col, prepare_series
from lakekit.commit.changes import Commit
from lakekit.data_file import rolling_writer
from lakekit.data_file.paths import file_extension, make_file_names, partition_spec, partition_values
from lakekit.errors import InvalidOption, StorageFailed, ValueOutOfRange
from lakekit.format.encoder import open_writer
from lakekit.format_table import scan
from lakekit.model import partition as partitions
from lakekit.model.data_file import EXTENSIONS
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.text_format import compression, csv
from lakekit.text_format.options import text_options_of
from lakekit.write import bucket_assigners as routes, row_conversion
from lakekit.write.value_casting import ErrorHints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

    import polars as pl

    from lakekit.data_file.paths import FileNames
    from lakekit.format.encoder import Encoder, Encoding
    from lakekit.metadata.table_context import TableContext
    from lakekit.text_format.options import TextOptions
    from lakekit.types import Field


_COMPRESSION_KEYS = ("file.compression", "format-table.file.compression", "compression")
_DEFAULT_COMPRESSION = {"parquet": "snappy", "orc": "zstd"}


def make_encoding(ctx: TableContext) -> Encoding:
    """Return the encoding of a table's files."""
    options = ctx.all_options
    codec = next(
        (options[key] for key in _COMPRESSION_KEYS if key in options),
        _DEFAULT_COMPRESSION.get(scan.table_format(ctx), "none"),
    )
    return rolling_writer.make_encoding(ctx.options, codec)


def open_text_encoder(ctx: TableContext, sink: BinaryIO) -> Encoder:
    """Return an encoder of text files. Raises `InvalidOption` for a compression that they do not have."""
    name = scan.table_format(ctx)
    how = text_options_of(ctx.all_options, name, zone=ctx.options.lakekit_java_time_zone)
    return TextEncoder(
        sink, scan.load_text_format(name), scan.file_fields(ctx.schema), how, make_encoding(ctx).compression
    )


class TextEncoder:
    """A text file being written: an `Encoder` without null counts and bounds."""

    def __init__(
        self, sink: BinaryIO, text_format: Any, fields: Sequence[Field], text_options: TextOptions, codec: str
    ) -> None:
        # the first write of a process may come before any schema of Polars
        prepare_series(field.name for field in fields)
        self.counting_file = _CountingFile(sink)
        self.sink = compression.open_compressed(self.counting_file, codec)  # type: ignore[arg-type] # all it needs is write
        self.text_format, self.fields, self.options = text_format, fields, text_options
        self.column_stats: Any = {}
        if text_options.has_header and text_format is csv:
            self.sink.write((csv.header(fields, text_options) + text_options.line_end).encode())

    @property
    def size_bytes(self) -> int:
        return self.counting_file.size_bytes

    def can_add(self, frame: pl.DataFrame) -> bool:  # noqa: ARG002 - any rows fit beside any others
        """Return True: a text file takes any frame."""
        return True

    def write(self, frame: pl.DataFrame) -> None:
        lines = self.text_format.format_lines(frame, self.fields, self.options)
        if len(lines):
            self.sink.write(
                (lines.str.join(self.options.line_end, ignore_nulls=False).item() + self.options.line_end).encode()
            )

    def flush(self) -> None:
        """Do nothing: compressors return what they hold only at the end."""

    def close(self) -> None:
        self.sink.close()


class _CountingFile:
    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size_bytes = file, 0

    def write(self, data: bytes) -> int:
        self.size_bytes += len(data)
        return self.file.write(data)


# ---- writer ------------------------------------------------------------


_MAX_OPEN_FILES = 200
"""Files that are held open until all are whole; later ones wait in memory, since a process may only open so many."""
_MIN_ROWS = 1000
_FIXED_COLUMN_HINTS = ErrorHints(grow="")
"""Its columns stay as they are."""


def append_rows(ctx: TableContext, frame: object, *, cast: bool) -> Commit:
    """Append rows.

    Raises the errors of `row_conversion.batches`, `Unsupported`, `ValueOutOfRange`, `StorageFailed`; no file is left
    then.
    """
    return _write_rows(ctx, frame, cast=cast, replaces=None)


def overwrite_partitions(
    ctx: TableContext, frame: object, *, partition: Mapping[str, Any] | None, cast: bool
) -> Commit:
    """Replace a partition, the partitions that the frame has rows of, or everything.

    Everything is replaced if no partition is named and either the table has no partitions or
    `dynamic-partition-overwrite` is false.
    """
    static = {} if partition is None else _static_values(ctx, partition)
    if partition is None and ctx.schema.partition_keys and ctx.options.dynamic_partition_overwrite:
        return _write_rows(ctx, frame, cast=cast, replaces="written")
    return _write_rows(ctx, frame, cast=cast, replaces="matching", static=static)


def drop_partitions(ctx: TableContext, specs: Sequence[Mapping[str, Any]]) -> Commit:
    """Delete the files of every partition that matches one of some specs; an empty spec matches all."""
    wanted = [partition_spec(ctx, spec) for spec in specs]
    matching = [
        folder
        for folder in scan.list_partitions(ctx)
        if any(_matches_spec(folder.partition_values, spec) for spec in wanted)
    ]
    started = ctx.runtime.elapsed_ms()
    removed = [file.path for files in scan.list_files(ctx, [folder.directory for folder in matching]) for file in files]
    scan.files_location(ctx)[0].delete(removed)
    return _commit_result(ctx, [], len(removed), started)


def _matches_spec(values: Sequence[Any], spec: Mapping[int, Any]) -> bool:
    return all(values[at] == value for at, value in spec.items())


def _static_values(ctx: TableContext, partition: Mapping[str, Any]) -> dict[int, Any]:
    """Return the values of a static partition by position; it must name the first partition columns."""
    if not ctx.schema.partition_keys:
        msg = "Format table is not partitioned, static partition values are not allowed. Leave partition out"
        raise InvalidOption(msg, key="partition", value=", ".join(partition))
    spec = partition_spec(ctx, partition)
    if not spec:
        raise InvalidOption(
            "an empty partition spec matches everything: leave partition out", key="partition", value=""
        )
    if sorted(spec) != list(range(len(spec))):
        name = ctx.schema.partition_keys[max(spec)]
        msg = (
            f"Static partition column '{name}' cannot be specified without its leading partition. Name the columns "
            "before it too"
        )
        raise InvalidOption(msg, key="partition", value=name)
    return spec


# ---- one write -----------------------------------------------------------------------------------


def _write_rows(
    ctx: TableContext, frame: object, *, cast: bool, replaces: str | None, static: Mapping[int, Any] | None = None
) -> Commit:
    scan.check_format(ctx)
    started = ctx.runtime.elapsed_ms()
    with _WriteSession(ctx) as writing:
        for rows in row_conversion.convert_batches(frame, ctx, cast=cast, error_hints=_FIXED_COLUMN_HINTS):
            for partition, part in _split_by_partition(ctx, rows):
                values = partition_values(ctx, partition) if ctx.schema.partition_keys else ()
                _check_static(ctx, values, static or {})
                writing.write(values, part)
        writing.finish()
        replaced = _paths_to_replace(ctx, writing, replaces, static or {})
        writing.publish()
    scan.files_location(ctx)[0].delete(replaced)
    return _commit_result(ctx, writing.closed_files, len(replaced), started)


def _split_by_partition(ctx: TableContext, rows: pl.DataFrame) -> Iterator[tuple[bytes, pl.DataFrame]]:
    """Yield the rows of each partition, in their order."""
    encoded = routes.encode_partitions(rows, ctx)
    for number, partition in enumerate(encoded.partition_rows):
        yield partition, rows if len(encoded.partition_rows) == 1 else rows[np.flatnonzero(encoded.codes == number)]


def _check_static(ctx: TableContext, values: Sequence[Any], static: Mapping[int, Any]) -> None:
    if not _matches_spec(values, static):
        names = ctx.schema.partition_keys
        wanted = ", ".join(f"{names[at]}={value}" for at, value in static.items())
        raise ValueOutOfRange(
            f"a row lies in another partition of {ctx.name} than {wanted}, which is overwritten. Leave it out",
            column=names[min(static)],
        )


def _paths_to_replace(
    ctx: TableContext, session: _WriteSession, replaces: str | None, static: Mapping[int, Any]
) -> list[str]:
    if replaces is None:
        return []
    matching = (
        list(session.folders)
        if replaces == "written"
        else [
            folder.directory for folder in scan.list_partitions(ctx) if _matches_spec(folder.partition_values, static)
        ]
    )
    return [file.path for files in scan.list_files(ctx, matching) for file in files]


def _commit_result(ctx: TableContext, files: Sequence[_OpenFile], removed_count: int, started: float) -> Commit:
    return Commit(
        table=ctx.name,
        snapshot_ids=(),
        commit_user=ctx.new_commit_user(),
        identifier=BATCH_IDENTIFIER,
        kinds=(),
        added_file_count=len(files),
        removed_file_count=removed_count,
        row_count=sum(file.row_count for file in files),
        size_bytes=sum(file.size_bytes for file in files),
        duration_ms=ctx.runtime.elapsed_ms() - started,
        retry_count=0,
    )


# ---- open files ----------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _OpenFile:
    """A file under a hidden name, or in memory."""

    path: str
    encoder: Encoder
    exit_stack: ExitStack | None
    memory: io.BytesIO | None
    row_count: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class _PartitionWriter:
    """The open file in a partition's folder, and the names of the next ones."""

    directory: str
    file_names: FileNames
    open_file: _OpenFile | None = member(default=None)


class _WriteSession:
    """All files of one write."""

    def __init__(self, ctx: TableContext) -> None:
        self.ctx = ctx
        self.storage, self.root = scan.files_location(ctx)
        self.format_name = scan.table_format(ctx)
        self.fields = scan.file_fields(ctx.schema)
        self.encoding = make_encoding(ctx)
        self.extension = _file_extension(ctx)
        self.folders: dict[str, _PartitionWriter] = {}
        self.closed_files: list[_OpenFile] = []
        self.published_paths: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.abort(error)

    def write(self, values: Sequence[Any], rows: pl.DataFrame) -> None:
        directory = self.partition_directory(values)
        partition_writer = self.folders.setdefault(directory, _PartitionWriter(directory, make_file_names(self.ctx)))
        rows = rows.select(col(field.name) for field in self.fields)
        target = self.ctx.options.rolling_size_bytes
        while rows.height:
            file = partition_writer.open_file = partition_writer.open_file or self._open_file(partition_writer)
            left = max(0, target - file.encoder.size_bytes)
            count = min(rows.height, max(_MIN_ROWS, int(left / max(1.0, rows.estimated_size() / rows.height))))
            file.encoder.write(rows.head(count))
            file.row_count += count
            rows = rows.slice(count)
            if file.encoder.size_bytes >= target:
                self._close_file(partition_writer)

    def partition_directory(self, values: Sequence[Any]) -> str:
        schema, options = self.ctx.schema, self.ctx.options
        types = [field.type for field in schema.partition_fields]
        texts = partitions.partition_texts(
            values, types, default_name=options.partition_default_name, legacy_form=options.partition_legacy_name
        )
        if options.format_table_partition_path_only_value:
            _check_own_folders(self.ctx, texts)
            below = "/".join(partitions.escape_name(text) for text in texts)
        else:
            below = partitions.partition_path(schema.partition_keys, texts).rstrip("/")
        return f"{self.root}/{below}" if below else self.root

    def finish(self) -> None:
        """Finish the open files: every file is complete now, and hidden."""
        for partition_writer in self.folders.values():
            self._close_file(partition_writer)

    def publish(self) -> None:
        """Make the files visible."""
        for file in self.closed_files:
            self.published_paths.append(file.path)
            if file.exit_stack is not None:
                stack, file.exit_stack = file.exit_stack, None
                stack.close()
            elif file.memory is not None:
                self.storage.put(file.path, file.memory.getvalue())

    def abort(self, error: BaseException) -> None:
        """Delete all files, visible and hidden."""
        for file in [
            *self.closed_files,
            *(
                partition_writer.open_file
                for partition_writer in self.folders.values()
                if partition_writer.open_file is not None
            ),
        ]:
            if file.exit_stack is not None:
                with suppress(type(error), StorageFailed):
                    file.exit_stack.__exit__(type(error), error, error.__traceback__)
        with suppress(StorageFailed):
            self.storage.delete(self.published_paths)

    def _open_file(self, partition_writer: _PartitionWriter) -> _OpenFile:
        path = f"{partition_writer.directory}/{partition_writer.file_names.next_name(self.extension)}"
        memory = io.BytesIO() if len(self.closed_files) + len(self.folders) > _MAX_OPEN_FILES else None
        if memory is not None:
            return _OpenFile(path=path, encoder=self._open_encoder(memory), exit_stack=None, memory=memory)
        stack = ExitStack()
        sink = stack.enter_context(self.storage.open_write(path))
        try:
            return _OpenFile(path=path, encoder=self._open_encoder(sink), exit_stack=stack, memory=None)
        except BaseException as why:
            with suppress(type(why), StorageFailed):
                stack.__exit__(type(why), why, why.__traceback__)
            raise

    def _open_encoder(self, sink: BinaryIO) -> Encoder:
        if self.format_name in scan.TEXT_FORMATS:
            return open_text_encoder(self.ctx, sink)
        return open_writer(sink, self.format_name, self.fields, self.encoding)

    def _close_file(self, partition_writer: _PartitionWriter) -> None:
        file = partition_writer.open_file
        if file is None:
            return
        file.encoder.close()
        file.size_bytes = file.encoder.size_bytes
        partition_writer.open_file = None
        self.closed_files.append(file)


def _check_own_folders(ctx: TableContext, texts: Sequence[str]) -> None:
    """Raise `ValueOutOfRange` for a text that cannot be the name of a visible folder of its own."""
    null = ctx.options.partition_default_name
    for name, text in zip(ctx.schema.partition_keys, texts, strict=True):
        if text in {"", ".", ".."} or (scan.is_hidden(text) and text != null):
            raise ValueOutOfRange(
                f"{text[:80]!r} in column {name} of {ctx.name} cannot be the name of a folder of rows: "
                "format-table.partition-path-only-value has no "
                'more in it than the value, and "." and ".." are other folders, what begins with . or _ is hidden. '
                "Reset that option, or change the value",
                column=name,
            )


def _file_extension(ctx: TableContext) -> str:
    """Return the extension of file names, without the dot."""
    name = scan.table_format(ctx)
    chosen = make_encoding(ctx).compression
    if name not in scan.TEXT_FORMATS:
        return file_extension(ctx.options, name, chosen)
    ending = EXTENSIONS[compression.normalize_compression(chosen)]
    return f"{name}.{ending}" if ending else name
