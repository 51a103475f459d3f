"""What the tests of written files share: a table that is nothing but a schema, and frames as writers of buckets hold them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lakekit.files.file_names import file_names
from lakekit.files.places import data_file_path
from lakekit.files.read import scan_files
from lakekit.files.write import Target, write_run
from lakekit.meta.handle import open_handle
from lakekit.model.data_file import APPEND_SOURCE, EMPTY_ROW
from lakekit.model.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile
    from lakekit.types import Field


def table(path: Path | str, fields: Iterable[Field], *, key: Iterable[str] = (), options: Mapping[str, str] | None = None) -> Handle:
    """A new table at a path, without snapshots."""
    fields = tuple(fields)
    keys = tuple(key)
    given = {"bucket": "1"} | dict(options or {}) if keys else dict(options or {})
    schema = TableSchema(version=3, id=0, fields=fields, highest_field_id=1000, primary_keys=keys, options=given)
    folder = Path(path) / "schema"
    folder.mkdir(parents=True)
    (folder / "schema-0").write_bytes(schema.to_json())
    return open_handle(str(path))


def target(handle: Handle, **more: object) -> Target:
    """Where a flush of the table's only bucket goes."""
    facts = {"partition": EMPTY_ROW, "bucket": 0, "level": 0, "source": APPEND_SOURCE, "names": file_names(handle), "keyed": handle.kind == "key"}
    return Target(handle=handle, **(facts | more))


def section(frame: pl.DataFrame, kinds: Iterable[int] | None = None) -> pl.DataFrame:
    """Rows of a key table as writers hold them: numbered, each with its kind."""
    kind = pl.Series("_VALUE_KIND", list(kinds) if kinds is not None else [0] * frame.height, pl.Int8)
    return frame.with_columns(pl.int_range(frame.height, dtype=pl.Int64).alias("_SEQUENCE_NUMBER"), kind)


def write(handle: Handle, *frames: pl.DataFrame, **more: object) -> list[DataFile]:
    """The files of one run."""
    return write_run(target(handle, **more), frames)


def read(handle: Handle, files: list[DataFile], *, system: Iterable[str] = ()) -> pl.DataFrame:
    """The rows of some files of the only bucket."""
    paths = [data_file_path(handle, EMPTY_ROW, 0, file) for file in files]
    return scan_files(handle, files, paths, list(handle.schema.fields), system=tuple(system)).collect()


def renumbered(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Columns with ids in order; parts of rows keep theirs."""
    return tuple(replace(field, id=i) for i, field in enumerate(fields))
