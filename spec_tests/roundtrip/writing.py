"""What the tests of written files share: a table that is nothing but a schema, and frames as writers of buckets hold them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import polars as pl

from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.format import thrift
from lakekit.metadata.table_context import open_context
from lakekit.model.data_file import APPEND_SOURCE, EMPTY_ROW
from lakekit.model.table_schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakekit.format.thrift import Struct
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import Field


def table(path: Path | str, fields: Iterable[Field], *, key: Iterable[str] = (), options: Mapping[str, str] | None = None) -> TableContext:
    """A new table at a path, without snapshots."""
    fields = tuple(fields)
    keys = tuple(key)
    given = {"bucket": "1"} | dict(options or {}) if keys else dict(options or {})
    schema = TableSchema(version=3, id=0, fields=fields, highest_field_id=1000, primary_keys=keys, options=given)
    folder = Path(path) / "schema"
    folder.mkdir(parents=True)
    (folder / "schema-0").write_bytes(schema.to_json())
    places = given.get("data-file.external-paths")
    return open_context(str(path), options=None if places is None else {"lakekit.allowed-locations": places})


def target(handle: TableContext, **more: object) -> WriteTarget:
    """Where a flush of the table's only bucket goes."""
    facts = {"partition": EMPTY_ROW, "bucket": 0, "level": 0, "source": APPEND_SOURCE, "file_names": make_file_names(handle), "is_keyed": handle.kind == "key"}
    return WriteTarget(ctx=handle, **(facts | more))


def section(frame: pl.DataFrame, kinds: Iterable[int] | None = None) -> pl.DataFrame:
    """Rows of a key table as writers hold them: numbered, each with its kind."""
    kind = pl.Series("_VALUE_KIND", list(kinds) if kinds is not None else [0] * frame.height, pl.Int8)
    return frame.with_columns(pl.int_range(frame.height, dtype=pl.Int64).alias("_SEQUENCE_NUMBER"), kind)


def write(handle: TableContext, *frames: pl.DataFrame, **more: object) -> list[DataFileMeta]:
    """The files of one run."""
    return write_run(target(handle, **more), frames)


def read(handle: TableContext, files: list[DataFileMeta], *, system: Iterable[str] = ()) -> pl.DataFrame:
    """The rows of some files of the only bucket."""
    paths = [data_file_path(handle, EMPTY_ROW, 0, file) for file in files]
    return scan_files(handle, files, paths, list(handle.schema.fields), system=tuple(system)).collect()


def renumbered(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Columns with ids in order; parts of rows keep theirs."""
    return tuple(replace(field, id=i) for i, field in enumerate(fields))


def check_pages(data: bytes) -> int:
    """Looks at every page of a Parquet file, and gives how many there are: its checksum is there and right, and its index says where it is."""
    count = 0
    footer, _ = thrift.decode_struct(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    for group in footer[4][1][1]:
        for chunk in group[1][1][1]:
            facts = chunk[3][1]
            pages = list(_pages(data, facts))
            raw = sum(behind - begin + size for begin, behind, size, _ in pages)
            assert raw == facts[6][1], "what the pages were before they were compressed, with their heads"
            if 4 in chunk:
                index, end = thrift.decode_struct(data, chunk[4][1])
                assert end == chunk[4][1] + chunk[5][1]
                told = [(page[1][1], page[2][1]) for page in index[1][1][1]]
                assert told == [(begin, end - begin) for begin, _, _, end in pages if begin >= facts[9][1]]
            if 6 in chunk:
                assert thrift.decode_struct(data, chunk[6][1])[1] == chunk[6][1] + chunk[7][1]
            count += len(pages)
        assert group[2][1] == sum(chunk[3][1][6][1] for chunk in group[1][1][1])
        assert group[6][1] == sum(chunk[3][1][7][1] for chunk in group[1][1][1])
    return count


def _pages(data: bytes, facts: Struct) -> Iterator[tuple[int, int, int, int]]:
    """Where each page begins, where its head ends, how many bytes it had before it was compressed, and where it ends."""
    at = min(facts[number][1] for number in (9, 11) if number in facts and facts[number][1])
    end = at + facts[7][1]
    while at < end:
        head, behind = thrift.decode_struct(data, at)
        after = behind + head[3][1]
        assert head[4][1] & 0xFFFFFFFF == crc32(data[behind:after])
        yield at, behind, head[2][1], after
        at = after
    assert at == end
