"""Scripts for every writer, one for each known risk, each small enough to be checked by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.testing.adapters import KIND
from lakekit.testing.scripts import Script, ScriptStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FULL_COMPACTION = ScriptStep(do="compact", full=True)
_LONG_TEXT = "longer than sixteen characters, and then "
_K = {"k": "INT NOT NULL"}
_KV = {**_K, "v": "STRING"}
ENGINES = ("append", "deduplicate", "partial-update", "aggregation", "first-row")

EVERY_TYPE: dict[str, tuple[str, list[Any]]] = {
    "bool": ("BOOLEAN", [True, False, None]),
    "i8": ("TINYINT", [-128, 127, None]),
    "i16": ("SMALLINT", [-32768, 32767, None]),
    "i32": ("INT", [-(2**31), 2**31 - 1, None]),
    "i64": ("BIGINT", [-(2**63), 2**63 - 1, None]),
    "f32": ("FLOAT", ["-0.0", "3.4028235E38", None]),
    "f64": ("DOUBLE", ["NaN", "-Infinity", None]),
    "dec5": ("DECIMAL(5, 2)", ["-999.99", "0.01", None]),
    "dec38": ("DECIMAL(38, 10)", ["-9999999999999999999999999999.9999999999", "1.0000000001", None]),
    "text": ("STRING", ["", f"{_LONG_TEXT}湖", None]),
    "char": ("CHAR(3)", ["abc", "xyz", None]),
    "varchar": ("VARCHAR(10)", ["é", "😀", None]),
    "bytes": ("BYTES", ["", "00ff80", None]),
    "binary": ("BINARY(2)", ["0001", "ffff", None]),
    "day": ("DATE", [-719162, 19723, None]),
    "clock": ("TIME(3)", [0, 86_399_999, None]),
    "ts3": ("TIMESTAMP(3)", [[-1, 0], [1_700_000_000_123, 0], None]),
    "ts6": ("TIMESTAMP(6)", [[0, 1_000], [1_700_000_000_123, 456_000], None]),
    "ltz": ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [[0, 0], [1_700_000_000_123, 0], None]),
    "arr": ("ARRAY<INT>", [[1, None, 3], [], None]),
    "map": ("MAP<STRING, BIGINT>", [[["a", 1], ["b", None]], [], None]),
    "row": ("ROW<x INT, y STRING>", [[1, "one"], [None, None], None]),
}
"""A column of each type: its lowest or an unusual value, another, and null."""


def write(*rows: Any) -> ScriptStep:
    """Return a step that writes dicts, +I where they have no kind."""
    return ScriptStep(do="write", rows=tuple({KIND: "+I", **row} for row in rows))


def _kv(*pairs: tuple[int, str | None], kind: str = "+I") -> list[dict[str, Any]]:
    return [{KIND: kind, "k": k, "v": v} for k, v in pairs]


def _delete(*rows: dict[str, Any]) -> ScriptStep:
    return ScriptStep(do="delete", rows=rows)


def _build_script(
    area: str,
    name: str,
    columns: Mapping[str, str],
    *steps: ScriptStep,
    keys: str = "",
    partitions: str = "",
    **options: str,
) -> Script:
    """Return a script; names of options are written with _ for - and __ for a dot."""
    table_options = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    if area != "append":
        table_options = {"bucket": "1", **table_options} | ({} if area == "deduplicate" else {"merge-engine": area})
    return Script(
        area=area,
        name=name,
        columns=columns,
        steps=steps,
        primary_keys=tuple(keys.split()),
        partition_keys=tuple(partitions.split()),
        options=table_options,
    )


def scripts() -> list[Script]:
    """Return every script, by area."""
    return [*_append(), *_deduplicate(), *_sequences(), *_folds()]


def _types(*, keyed: bool) -> tuple[dict[str, str], list[dict[str, Any]]]:
    columns = ({"k": "INT NOT NULL"} if keyed else {"k": "INT"}) | {
        name: text for name, (text, _) in EVERY_TYPE.items()
    }
    return columns, [{"k": at, **{name: values[at] for name, (_, values) in EVERY_TYPE.items()}} for at in range(3)]


def _append() -> Iterable[Script]:
    columns, rows = _types(keyed=False)
    parts = {"k": "INT", "p": "STRING"}
    for form in ("parquet", "orc", "avro"):
        yield _build_script(
            "append", f"every type, {form}", columns, write(*rows), write(rows[2], rows[0]), file__format=form
        )
    yield _build_script(
        "append",
        "the same row twice",
        {"k": "INT", "v": "STRING"},
        write(*_kv((1, "a"), (1, "a"))),
        write(*_kv((1, "a"))),
    )
    yield _build_script(
        "append",
        "nulls alone",
        {"k": "INT", "v": "STRING"},
        write({"k": None, "v": None}),
        write({"k": None, "v": None}),
    )
    special = ["plain", "a/b=c%", "with blank", "湖", None]
    yield _build_script(
        "append", "partitions", parts, write(*({"k": n, "p": p} for n, p in enumerate(special))), partitions="p"
    )
    texts = [{"k": n, "v": f"{_LONG_TEXT}{n}"} for n in range(40)]
    yield _build_script(
        "append", "buckets of a text", {"k": "INT", "v": "STRING"}, write(*texts), bucket="4", bucket_key="v"
    )
    yield _build_script(
        "append",
        "buckets of numbers",
        {"k": "INT", "v": "STRING"},
        write(*texts),
        write(*texts[:9]),
        bucket="3",
        bucket_key="k",
    )
    many = [write(*texts[at : at + 5]) for at in range(0, 30, 5)]
    yield _build_script("append", "compacted", {"k": "INT", "v": "STRING"}, *many, _FULL_COMPACTION)
    yield _build_script("append", "deleted", {"k": "INT", "v": "STRING"}, write(*texts), _delete({"k": 3}, {"k": 7}))
    yield _build_script(
        "append",
        "deleted, with vectors",
        {"k": "INT", "v": "STRING"},
        write(*texts),
        _delete({"k": 3}),
        deletion_vectors__enabled="true",
    )


def _deduplicate() -> Iterable[Script]:
    columns, rows = _types(keyed=True)
    first = write(*_kv((1, "a"), (2, "b"), (3, None)))
    second = write(*_kv((2, "bb"), (3, "c")), *_kv((1, None), kind="-D"))
    for form in ("parquet", "orc", "avro"):
        yield _build_script(
            "deduplicate",
            f"every type, {form}",
            columns,
            write(*rows),
            write(rows[0]),
            _FULL_COMPACTION,
            keys="k",
            file__format=form,
        )
    yield _build_script("deduplicate", "written again", _KV, first, write(*_kv((2, "bb"), (4, "d"))), keys="k")
    yield _build_script("deduplicate", "deleted", _KV, first, second, keys="k")
    yield _build_script("deduplicate", "deleted by key", _KV, first, _delete({"k": 2}, {"k": 9}), keys="k")
    yield _build_script("deduplicate", "deleted and back", _KV, first, second, write(*_kv((1, "back"))), keys="k")
    yield _build_script("deduplicate", "deleted, compacted", _KV, first, second, _FULL_COMPACTION, keys="k")
    changes = [*_kv((1, "a"), kind="-U"), *_kv((1, "aa"), kind="+U"), *_kv((2, "b"), kind="-U")]
    yield _build_script("deduplicate", "updates", _KV, first, write(*changes), keys="k")
    yield _build_script("deduplicate", "null over a value", _KV, first, write(*_kv((1, None))), keys="k")
    yield _build_script(
        "deduplicate",
        "twice in one commit",
        _KV,
        write(*_kv((1, "a"), (1, "b"), (2, "x"))),
        write(*_kv((1, "c"), (1, "d"))),
        keys="k",
    )
    runs = [write(*_kv((n, f"{n}"), (n + 1, f"{n}"), (9 - n, f"{n}"))) for n in range(7)]
    yield _build_script("deduplicate", "many runs", _KV, *runs, keys="k")
    yield _build_script(
        "deduplicate", "many runs, compacted", _KV, *runs, ScriptStep(do="compact"), _FULL_COMPACTION, keys="k"
    )
    yield _build_script(
        "deduplicate", "vectors", _KV, first, second, _FULL_COMPACTION, keys="k", deletion_vectors__enabled="true"
    )
    yield from _deduplicate_buckets()


def _deduplicate_buckets() -> Iterable[Script]:
    text = {"k": "STRING NOT NULL", "v": "INT"}
    rows_of_texts = [{"k": f"{_LONG_TEXT}{n}", "v": n} for n in range(40)]
    deletes = write({KIND: "-D", **rows_of_texts[0]}, rows_of_texts[1] | {"v": -1})
    yield _build_script("deduplicate", "buckets of texts", text, write(*rows_of_texts), deletes, keys="k", bucket="4")
    yield _build_script(
        "deduplicate",
        "buckets of numbers",
        _KV,
        write(*_kv(*((n, "a") for n in range(40)))),
        write(*_kv((7, "b"))),
        keys="k",
        bucket="4",
    )
    two = {"a": "DECIMAL(20, 3) NOT NULL", "d": "DATE NOT NULL", "v": "INT"}
    pairs = [{"a": f"{n}.500", "d": 19_000 + n % 3, "v": n} for n in range(12)]
    yield _build_script(
        "deduplicate", "keys of two columns", two, write(*pairs), write(pairs[3] | {"v": -3}), keys="a d", bucket="2"
    )
    parts = {"p": "STRING NOT NULL", **_KV}
    sample = [{"p": p, "k": k, "v": p} for p in ("x", "y") for k in (1, 2)]
    yield _build_script(
        "deduplicate", "partitions", parts, write(*sample), write({KIND: "-D", **sample[0]}), keys="p k", partitions="p"
    )


def _sequences() -> Iterable[Script]:
    columns = {**_K, "s": "BIGINT", "v": "STRING"}

    def rows(*found: tuple[int, int | None, str]) -> ScriptStep:
        return write(*({"k": k, "s": s, "v": v} for k, s, v in found))

    steps = (
        rows((1, 5, "new"), (2, 5, "old")),
        rows((1, 4, "late"), (2, 6, "newer")),
        rows((3, None, "none"), (3, 1, "one"), (2, 6, "same")),
    )
    for area in ("deduplicate", "partial-update"):
        yield _build_script(area, "late rows", columns, *steps, keys="k", sequence__field="s")
        yield _build_script(
            area, "late rows, compacted", columns, *steps, _FULL_COMPACTION, keys="k", sequence__field="s"
        )
    yield _build_script(
        "deduplicate",
        "late rows, descending",
        columns,
        *steps,
        keys="k",
        sequence__field="s",
        sequence__field__sort_order="descending",
    )


def _folds() -> Iterable[Script]:
    columns = {**_K, "a": "INT", "b": "STRING", "c": "BIGINT"}

    def rows(*found: tuple[int, int | None, str | None, int | None]) -> ScriptStep:
        return write(*({"k": k, "a": a, "b": b, "c": c} for k, a, b, c in found))

    steps = (
        rows((1, 1, "a", None), (2, None, None, 7)),
        rows((1, None, "b", 5), (2, 2, None, None)),
        rows((1, 3, None, None), (3, None, None, None)),
    )
    yield _build_script("partial-update", "parts", columns, *steps, keys="k")
    yield _build_script("partial-update", "parts, compacted", columns, *steps, _FULL_COMPACTION, keys="k")
    group = {"fields__c__sequence_group": "a"}
    yield _build_script(
        "partial-update",
        "a group with its sequence",
        columns,
        *steps,
        rows((1, 9, "z", 4), (2, 8, "y", 9)),
        keys="k",
        **group,
    )
    folded = {
        "fields__a__aggregate_function": "sum",
        "fields__b__aggregate_function": "max",
        "fields__c__aggregate_function": "last_non_null_value",
    }
    yield _build_script("aggregation", "sum, max, last value", columns, *steps, keys="k", **folded)
    yield _build_script(
        "aggregation",
        "sum, max, last value, compacted",
        columns,
        *steps,
        _FULL_COMPACTION,
        rows((1, 1, "zz", 1)),
        keys="k",
        **folded,
    )
    listed = {
        "fields__a__aggregate_function": "min",
        "fields__b__aggregate_function": "listagg",
        "fields__c__aggregate_function": "first_non_null_value",
    }
    yield _build_script("aggregation", "min, listagg, first value", columns, *steps, keys="k", **listed)
    yield _build_script("first-row", "the first stays", columns, *steps, _FULL_COMPACTION, keys="k")
