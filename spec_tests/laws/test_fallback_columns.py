"""Columns of a fallback branch are those of the table, one by one, as the engine pairs them, whatever either branch has called them since it began."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import SchemaMismatch

PLAIN = {"p": "STRING", "a": "INT", "b": "INT"}
MIXED = {"p": "STRING", "a": "INT", "b": "DATE"}
NESTED = {"p": "STRING", "a": "INT", "r": "ROW<x INT, y INT>"}
EXCHANGED = (lk.rename_column("a", "x"), lk.rename_column("b", "a"), lk.rename_column("x", "b"))
CASES = {
    "nothing": (PLAIN, ()),
    "renamed": (PLAIN, (lk.rename_column("a", "z"),)),
    "exchanged": (PLAIN, EXCHANGED),
    "exchanged, of two types": (MIXED, EXCHANGED),
    "made anew": (PLAIN, (lk.drop_column("a"), lk.add_column("a", "INT", after="p"))),
    "another in its place": (PLAIN, (lk.drop_column("b"), lk.add_column("z", "INT"))),
    "nullable": ({**PLAIN, "b": "INT NOT NULL"}, (lk.update_nullability("b", nullable=True),)),
    "moved": (PLAIN, (lk.move_column("b", after="p"),)),
    "with a comment": (PLAIN, (lk.update_comment("a", "the first"),)),
}
APART = {
    "part made anew": (NESTED, (lk.drop_column("r.y"), lk.add_column("r.y", "INT"))),
    "part renamed": (NESTED, (lk.rename_column("r.x", "z"),)),
    "added": (PLAIN, (lk.add_column("c", "INT"),)),
    "moved, of two types": (MIXED, (lk.move_column("a", last=True),)),
}
KINDS = {
    "append": ({}, []),
    "key": ({"bucket": "1"}, ["p", "a"]),
    "indexed": ({"file-index.bloom-filter.columns": "a", "file-index.bsi.columns": "b"}, []),
    "buckets": ({"bucket": "3", "bucket-key": "a"}, []),
}
SOME = ("nothing", "renamed", "exchanged", "nullable")
PAIRS = [("append", case) for case in CASES] + [(kind, case) for kind in ("key", "indexed", "buckets") for case in SOME]


def value(text, n):
    return {"STRING": "m", "DATE": dt.date(2020, 1, 1), "ROW": {"x": n, "y": n + 1}}.get(text.split("<")[0], n)


def made(path, columns, changes, kind="append"):
    """A table whose rows of partition `b` lie in its fallback branch, which has changed its columns; as many schemas in either."""
    options, keys = KINDS[kind]
    table = lk.create(path, columns, partition_keys=["p"], primary_keys=keys, options=options)
    types = table.schema.to_polars()
    frame = pl.select(*(pl.lit(value(text.split(" ")[0], n + 1), types[name]).alias(name) for n, (name, text) in enumerate(columns.items())))
    write = table.upsert if keys else table.append
    write(frame)
    table.create_tag("then")
    table.create_branch("other", tag="then")
    if changes:
        table.branch("other").alter(*changes)
    other = table.branch("other")
    names = [field.name for field in other.schema.fields]
    held = frame.with_columns(p=pl.lit("b")).get_columns()
    if any("move" in type(change).__name__.lower() for change in changes):
        theirs = pl.DataFrame(held)
    else:
        theirs = pl.DataFrame([column.alias(name) for name, column in zip(names, held, strict=True)])
    (other.upsert if keys else other.append)(theirs)
    other.delete("p = 'm'")
    table.alter(lk.set_option("scan.fallback-branch", "other"))
    return frame, lk.open(path)


@pytest.mark.parametrize(("kind", "case"), PAIRS)
def test_columns_are_paired(tmp_path, kind, case):
    columns, changes = CASES[case]
    frame, table = made(tmp_path / "t", columns, changes, kind)
    every = pl.concat([frame, frame.with_columns(p=pl.lit("b"))])
    assert table.scan().collect().sort("p", descending=True).equals(every)
    for name in (name for name in columns if name != "r"):
        wanted = pl.col("p") == "b" if name == "p" else pl.col(name) == pl.lit(frame[name][0])
        found = every.filter(wanted)
        assert table.scan().filter(wanted).collect().height == found.height, name
        assert table.aggregate(pl.len(), where=wanted)["len"][0] == found.height, name
        assert table.aggregate(pl.col(name).max(), where=wanted).rows() == found.select(pl.col(name).max()).rows(), name


@pytest.mark.parametrize("kind", KINDS)
def test_what_each_branch_is_asked_of_its_indexes_is_not_told_to_the_other(tmp_path, kind):
    _, table = made(tmp_path / "t", PLAIN, EXCHANGED, kind)
    for reader in (table, table.branch("other"), table, table.branch("other")):
        rows = reader.scan().filter(p="b").collect()
        for name in "ab":
            assert reader.scan().filter(pl.col(name) == rows[name][0], p="b").collect().equals(rows), name


def apart(path, case):
    """A table whose fallback branch has columns that are no pairs of its own."""
    columns, changes = APART[case]
    table = lk.create(path, columns, partition_keys=["p"])
    table.create_branch("other")
    table.branch("other").alter(*changes)
    table.alter(lk.set_option("scan.fallback-branch", "other"))
    return lk.open(path)


@pytest.mark.parametrize("case", APART)
def test_columns_that_are_no_pairs_are_refused(tmp_path, case):
    with pytest.raises(SchemaMismatch, match="fallback branch other"):
        apart(tmp_path / "t", case).scan().collect()
