"""Columns of Polars frames by their exact names, and the names of columns that lakekit adds to frames.

    col("v")        ->   pl.col("v")                   an ordinary name: the plain expression
    col("^a$")      ->   the column of exactly this name; pl.col("^a$") is every column that the pattern matches
    col("*")        ->   the column called *; pl.col("*") is every column

Polars reads two kinds of names as patterns, `*` and `^…$`, wherever it takes the text of a name for an expression:
`pl.col`, `select`, `drop`, `sort`, `group_by`, `over`, `join(on=)`, `unique(subset=)`, `struct.field`, `partition_by`,
`cast({…})` and more. Names of schemas are data: they pass through the functions of this module. Text is read as a name,
not as a pattern, by `alias`, `rename`, `frame[name]`, `frame[[names]]`, `get_column`, `with_row_index`,
`with_columns(**{name: …})` and the schemas of frames.

Columns that lakekit adds are called by the constants of this module: names that no table may have (`lakekit.types`),
and that are no patterns.
"""

from __future__ import annotations

import io
import json
import re
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl
import polars.selectors as cs
from polars.series import series, string, utils

from lakekit import parallel
from lakekit.types import INTERNAL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from polars._typing import PolarsDataType

__all__ = [
    "AFTER",
    "BEFORE",
    "CODE",
    "CURVE",
    "FILE",
    "GROUP",
    "HASH",
    "KEY",
    "KIND",
    "LEVEL",
    "PATH",
    "POSITION",
    "ROW",
    "ROW_KIND",
    "SEQUENCE",
    "VALUE",
    "cast_columns",
    "col",
    "collect_batches",
    "cols",
    "drop_columns",
    "instance",
    "internal",
    "is_of_machine",
    "is_pattern",
    "pass_interrupt",
    "prepare_series",
    "run_expressions",
    "select_by_name",
    "series_field",
    "split_by_chunk",
    "struct_field",
    "without_empty_chunks",
]

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)
_MACHINE_MESSAGE = re.compile(
    r"os error \d|\[errno \d|too many open files|cannot allocate memory|out of memory|permission denied|no space left|"
    r"previously been poisoned",
    re.IGNORECASE,
)

# ---- columns of files of key tables ----------------------------------------------------------------------------------

KIND: Final = "_VALUE_KIND"
"""The kind of a row as its number: 0 +I, 1 -U, 2 +U, 3 -D."""
SEQUENCE: Final = "_SEQUENCE_NUMBER"
"""The sequence number of a row."""

ROW_KIND: Final = "_row_kind"
"""The column under which rows say what they do, going in and coming out."""

# ---- columns that lakekit adds ---------------------------------------------------------------------------------------

ROW: Final = "\x1frow"
"""The position of a row in its frame or file."""
LEVEL: Final = "\x1flevel"
"""The level of the data file that a row lies in."""
FILE: Final = "\x1ffile"
"""The name of the data file that a row lies in."""
PATH: Final = "\x1fpath"
"""The path of the data file that a row lies in, as the reader of a format gives it."""
POSITION: Final = "\x1fplace"
"""The position of a row in the order that is being made, or in the frame that it came from."""
CURVE: Final = "\x1fcurve"
"""The position of a row on the curve that its file is sorted along; a sort key, so no code that sorts by given keys may
use the name for itself.
"""
KEY: Final = "\x1fkey"
"""The number of a row's key among the keys of its frame."""
CODE: Final = "\x1fcode"
"""The number of a row's group of equal rows."""
GROUP: Final = "\x1fgroup"
"""The number of the bucket, or of the group of buckets, that a row belongs to."""
HASH: Final = "\x1fhash"
"""The hash of a row's key."""
VALUE: Final = "\x1fvalue"
"""A row as one value, a struct."""
BEFORE: Final = "\x1fbefore"
"""Whether a row stood before a change; with a name behind it, a column of that row."""
AFTER: Final = "\x1fafter"
"""Whether a row stands after a change."""


def internal(word: str, name: str = "") -> str:
    """Return the name of a column that lakekit adds: `internal("row")`.

    `internal("before", "v")` if there is one for each column of a table.
    """
    return f"{INTERNAL_PREFIX}{word}.{name}" if name else f"{INTERNAL_PREFIX}{word}"


def is_pattern(name: str) -> bool:
    """Return whether Polars reads the name as a pattern that stands for other columns: `*`, or `^` to `$`."""
    return name == "*" or (len(name) > 1 and name[0] == "^" and name[-1] == "$")


def col(name: str) -> pl.Expr:
    """Return the column of exactly this name: `pl.col(name)` for every name that is no pattern.

    Polars has no function that gives the expression for a name that is a pattern; its serialized form can say it.
    `meta.root_names()`, pushdown of filters and projections treat it as every other column.
    """
    if not is_pattern(name):
        return pl.col(name)
    _name_own_column_exactly()  # the column becomes a series somewhere
    return _deserialize({"Column": name})


def cols(names: Iterable[str]) -> list[pl.Expr]:
    """Return the columns of exactly these names, one expression for each."""
    return [col(name) for name in names]


def select_by_name(names: Iterable[str], *, strict: bool = True) -> cs.Selector:
    """Return a selector of exactly these columns, for methods that need one (`drop`, `explode`).

    Not `strict`: of those that exist.
    """
    return cs.by_name(*names, require_all=strict)


def drop_columns(frame: Frame, names: Iterable[str], *, strict: bool = True) -> Frame:
    """Return the frame without exactly these columns; not `strict`: without those of them that it has."""
    dropped = list(names)
    return frame.drop(
        cs.by_name(*dropped, require_all=strict) if any(map(is_pattern, dropped)) else dropped, strict=strict
    )


def cast_columns(frame: Frame, types: Mapping[str, PolarsDataType]) -> Frame:
    """Return the frame with exactly these columns cast to these types."""
    return frame.with_columns(col(name).cast(dtype) for name, dtype in types.items())


def without_empty_chunks(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows in chunks of which none is empty; no row is copied.

    Polars 2.1 keeps a chunk of which a filter left no row, and panics over it in some functions: `list.set_union` and
    its kind, `format`. A frame that was filtered comes through here before an expression of the caller runs over it.
    """
    if all(0 not in column.chunk_lengths() for column in frame):
        return frame
    return pl.DataFrame([_join_chunks(column) for column in frame]) if frame.height else frame.clear().rechunk()


def run_expressions(frame: pl.DataFrame, step: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """Return `step(frame)` without empty chunks in the frame: callers' expressions run over frames in memory here."""
    return step(without_empty_chunks(frame))


_JOINED_VALUES = 1 << 17
"""How many values a frame has at most whose chunks are joined into one: its bytes cost a pass over all texts."""


def split_by_chunk(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of one chunk each; many rows are not copied where the columns are cut alike.

    A source of Polars yields such frames, as a filter of the query that goes on would leave empty chunks of others.
    """
    frame, start = without_empty_chunks(frame), 0
    lengths = max((column.chunk_lengths() for column in frame), key=len, default=[frame.height])
    if len(lengths) > 1 and (
        frame.height * frame.width <= _JOINED_VALUES  # to copy them costs less than a frame for each chunk
        or any(column.n_chunks() > 1 and column.chunk_lengths() != lengths for column in frame)
    ):
        frame, lengths = frame.rechunk(), [frame.height]
    for length in lengths:
        yield frame.slice(start, length)
        start += length


def collect_batches(
    frame: pl.LazyFrame, *, chunk_size: int | None = None, maintain_order: bool = True
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a query in batches, as `frame.collect_batches`, and raise a panic of Polars.

    Polars 2.1 ends its own iterator where the query panics, as if there were no more rows. Raises Polars' errors.
    """

    def push(put: Callable[[pl.DataFrame], bool]) -> None:
        frame.sink_batches(put, chunk_size=chunk_size, maintain_order=maintain_order, engine="streaming")

    return parallel.iterate_pushed(push)


def _join_chunks(column: pl.Series) -> pl.Series:
    filled = [chunk for chunk in column.get_chunks() if chunk.len()]
    for chunk in filled[1:]:
        filled[0].append(chunk)
    return filled[0]


def series_field(struct: pl.Series, name: str) -> pl.Series:
    """Return the part of exactly this name of a series of structs."""
    if not is_pattern(name):
        return struct.struct.field(name)
    return struct.to_frame(VALUE).select(struct_field(pl.col(VALUE), name)).to_series()


def struct_field(struct: pl.Expr, name: str) -> pl.Expr:
    """Return the field of exactly this name of a struct column.

    `struct.struct.field(name)` for every name that is no pattern.
    """
    if not is_pattern(name):
        return struct.struct.field(name)
    serialized = json.loads(struct.meta.serialize(format="json"))
    return _deserialize({"Function": {"input": [serialized], "function": {"StructExpr": {"FieldByName": name}}}})


def _deserialize(expr: dict[str, Any]) -> pl.Expr:
    return pl.Expr.deserialize(io.BytesIO(json.dumps(expr).encode()), format="json")


# ---- methods of series -----------------------------------------------------------------------------------------------


def prepare_series(names: Iterable[str]) -> None:
    """Make methods of `pl.Series` work on columns of such names; for ordinary names nothing changes.

    Most methods (`gather`, `is_null`, `list.len`, `+`) run as an expression over a frame of that one column, which
    Polars names by `F.col(self.name)`: a series called `^a$` has no such column, and the method raises. From the first
    such column on, these modules of Polars name it exactly in this process; for every other name they are unchanged.
    """
    if any(map(is_pattern, names)):
        _name_own_column_exactly()


@cache
def _name_own_column_exactly() -> None:
    exact = ModuleType("polars.functions")
    exact.__dict__.update({**vars(pl.functions), "col": col})
    # `arg_true` stands in a module of its own: it is asked of series without a name
    for module in (series, string, utils):
        module.F = exact  # type: ignore[attr-defined] # a module's global, which Polars does not export


def instance(dtype: object) -> pl.DataType:
    """Return the Polars type of an inner type, which may be given as its class."""
    polars_dtype = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(polars_dtype, pl.DataType)
    return polars_dtype


def pass_interrupt(error: BaseException) -> None:
    """Raise `KeyboardInterrupt` if that is what Polars panicked over.

    An interrupt in Python code that Polars calls becomes a panic whose message names it.
    """
    if isinstance(error, pl.exceptions.PanicException) and "KeyboardInterrupt" in str(error):
        raise KeyboardInterrupt from error


def is_of_machine(error: BaseException) -> bool:
    """Return whether the machine refused something, such as a file handle or memory.

    Such an error says nothing about the bytes of a file.
    """
    return (isinstance(error, OSError) and error.errno is not None) or _MACHINE_MESSAGE.search(str(error)) is not None
