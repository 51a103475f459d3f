"""The levels widget without a browser: what lights up is what the planner reads, everything it holds can be set, watched and repeated."""

from __future__ import annotations

import re
import time
from datetime import date, datetime, time as clock
from functools import cache
from html.parser import HTMLParser

import polars as pl
import pytest
import traitlets
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.draw import levels
from lakekit.draw.level_layout import build_axis, key_sort_key
from lakekit.draw.shapes import TextShape
from lakekit.inspection import levels as picture
from lakekit.notebook.levels import Levels
from lakekit.types import parse
from spec_tests.doors.views import CASES, collected, copied, facts, in_memory, planned_names, table
from spec_tests.longer import some

FEW = settings(max_examples=settings.default.max_examples // 5, suppress_health_check=list(HealthCheck))
KEYED = [name for name in CASES if facts(name).primary_keys and name != "aggregate_sketches"]
ALIKE = ("aggregate", "cast", "changelog", "files", "index", "old", "partial", "sequence", "evolve", "lookup")
KINDS = sorted({name.split("_")[0] if name.startswith(ALIKE) else "_".join(name.split("_")[:2]): name for name in CASES}.values())
"""A table of each kind."""


@pytest.fixture(scope="module")
def flights(fixtures_path):
    return lk.open(fixtures_path / "flights" / "table")


@cache
def widget(case: str) -> Levels:
    """One widget a table, left as it was found."""
    return Levels(table(case))


def typed(value: object) -> str:
    """A value of a key as a person types it."""
    match value:
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return value.hex()
        case datetime() | date() | clock():
            return value.isoformat()
    return str(value)


def chosen(case: str, condition: pl.Expr, at: int | None = None) -> set[str]:
    """What the planner reads under a condition, asked without the widget."""
    return planned_names(table(case), condition, at)


def in_bucket(shown: Levels) -> set[str]:
    files = shown.table.files(at=shown.at).filter((pl.col("partition") == shown.partition) & (pl.col("bucket") == shown.bucket))
    return set(files["file_name"])


def message(shown: Levels) -> str:
    return "".join(re.findall(r'<p role="alert">(.*?)</p>', shown._message.value))


# ---- probe and filter -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@FEW
@given(st.data())
def test_a_probe_lights_the_files_that_the_planner_reads(data):
    case = data.draw(st.sampled_from(KEYED))
    full, shown = collected(case), widget(case)
    keys = shown.table._context().schema.trimmed_primary_keys
    if full is None or not full.height or not keys or not shown._states[-1].files:
        return
    row = full.select(keys).row(data.draw(st.integers(0, full.height - 1)))
    wanted = row[: data.draw(st.integers(1, len(keys)))]
    condition = pl.all_horizontal(pl.col(name) == pl.lit(value, dtype=full.schema[name]) for name, value in zip(keys, wanted, strict=False))
    shown.probe = ", ".join(map(typed, wanted))
    try:
        assert message(shown) == ""
        planned = chosen(case, condition, shown.at)
        assert set(shown.lit) == planned & in_bucket(shown)
        assert {box.files[0].name for box in shown._picture.boxes if box.state == "lit"} == set(shown.lit)
        assert shown.table.explain(condition, at=shown.at).files_read >= len(planned)
        stored = shown.table.scan(at=shown.at, raw=True).filter(condition).select(pl.col("_file").unique()).collect()["_file"]
        assert set(stored) & picture.planned_file_names(shown.table, None, shown.at) <= planned, "a file with that key is not lit"
    finally:
        shown.probe = ""
    assert shown.lit == ()


@pytest.mark.long
@FEW
@given(st.data())
def test_a_filter_lights_the_files_that_the_planner_reads(data):
    case = data.draw(st.sampled_from(KEYED))
    full, shown = collected(case), widget(case)
    if full is None or not full.height:
        return
    plain = [name for name, dtype in full.schema.items() if dtype.is_integer() or dtype == pl.String]
    name = data.draw(st.sampled_from(plain)) if plain else None
    value = None if name is None else full[name][data.draw(st.integers(0, full.height - 1))]
    if value is None or '"' in name:
        return
    operator = data.draw(st.sampled_from(["=", "<", ">=", "<>"]))
    said = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
    shown.filter = f'"{name}" {operator} {said}'
    try:
        assert message(shown) == ""
        assert set(shown.lit) == chosen(case, pl.sql_expr(shown.filter), shown.at) & in_bucket(shown)
        assert shown._explain is not None
        assert str(shown._explain) in shown.as_text()
    finally:
        shown.filter = ""


def test_a_key_of_another_bucket_reads_nothing_here(flights):
    shown = Levels(flights, bucket=0)
    shown.probe = "2013-02-08, 9E, 3318, JFK"
    assert shown.lit == ()
    assert "0 of 4 files to be read, " in shown.as_text()
    assert "in other buckets" in shown.as_text()
    shown.bucket = 1
    assert len(shown.lit) >= 1
    assert "in other buckets" not in shown.as_text()


def test_probe_and_filter_together(flights):
    shown = Levels(flights)
    shown.probe, shown.filter = "2013-02-08", "carrier = '9E'"
    condition = (pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E")
    explained = flights.explain(condition, at=10)
    assert str(explained).splitlines()[1:] == shown.as_text().splitlines()[-len(str(explained).splitlines()) + 1 :]
    assert set(shown.lit) == picture.planned_file_names(flights, condition, 10) & in_bucket(shown)
    assert "<caption" in shown._message.value


@pytest.mark.long
@pytest.mark.parametrize(
    ("trait", "text", "said"),
    [
        ("probe", "x", "is no DATE, which key column day holds"),
        ("probe", "2013-02-08, 9E, many", "is no INT"),
        ("probe", "2013-02-08, 9E, 2147483648", "is no INT"),
        ("probe", "1,2,3,4,5", "5 values for 4 key columns"),
        ("filter", "carrier ==", "an operand of = is missing"),
        ("filter", "<script>alert(1)</script>", "an operand of &lt; is missing"),
        ("filter", "no_such_column = 1", "no_such_column"),
        ("at", 99, "snapshot 99"),
        ("compare_to", 98, "snapshot 98"),
    ],
)
def test_bad_input_is_told_and_not_raised(flights, trait, text, said):
    shown = Levels(flights)
    setattr(shown, trait, text)
    assert said in message(shown)
    assert "<script" not in shown._message.value
    assert shown.lit == ()
    setattr(shown, trait, {"at": 10, "compare_to": 0}.get(trait, ""))
    assert message(shown) == ""
    assert shown._states[-1].files


TYPED = {
    "BOOLEAN": ("true", True),
    "TINYINT": ("-128", -128),
    "BIGINT": ("9223372036854775807", 2**63 - 1),
    "DOUBLE": ("-1.5e3", -1500.0),
    "DATE": ("2024-02-29", date(2024, 2, 29)),
    "BYTES": ("00ff", b"\x00\xff"),
    "STRING": ('"a, ""b"', 'a, "b'),
    "TIMESTAMP(6)": ("2024-02-29 01:02:03.000004", datetime.fromisoformat("2024-02-29T01:02:03.000004")),
}


@pytest.mark.parametrize("kind", TYPED)
def test_keys_are_read_by_their_types(kind):
    text, value = TYPED[kind]
    assert [picture._parse_literal(parse(kind), part) for part in picture._split_key_text(text)] == [value]
    wrong = ["maybe", "1e", "2024-02-30", "0x0", "2024-01-01T00:00:00.0000001"]
    if kind == "STRING":
        assert [picture._parse_literal(parse(kind), one) for one in wrong] == wrong
        return
    for one in wrong if kind != "BYTES" else ["maybe", "0x0"]:
        with pytest.raises(ValueError):
            picture._parse_literal(parse(kind), one)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4), st.data())
def test_values_in_quotes_hold_anything(values, data):
    quotes = [data.draw(st.sampled_from("'\"")) for _ in values]
    text = " , ".join(quote + value.replace(quote, quote * 2) + quote for quote, value in zip(quotes, values, strict=True))
    assert picture._split_key_text(text) == values


# ---- what it shows --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("case", some(KINDS, 3))
def test_every_kind_of_table_is_drawn(case):
    shown = widget(case)
    assert message(shown) == ""
    files = shown.table.files(at=shown.at or None)
    places = picture.list_buckets(files)
    assert bool(shown._picture.boxes) >= bool(len(files))
    for place in places[:3]:
        shown.partition, shown.bucket = place.partition, place.bucket
        here = files.filter((pl.col("partition") == place.partition) & (pl.col("bucket") == place.bucket))
        drawn = [box for box in shown._picture.boxes if not box.key.startswith("removed/")]
        assert {file.name for box in drawn for file in box.files} == set(here["file_name"])
        assert shown.drawing().description.startswith(shown._title)
        known = [file for file in shown._states[-1].files if file.min_key is not None]
        axis = build_axis(key for file in known for key in (file.min_key, file.max_key))
        assert all(key_sort_key(file.min_key) <= key_sort_key(file.max_key) and axis.start(file.min_key) <= axis.end(file.max_key) for file in known)
        newest = [file.max_sequence_number for file in known if file.level == 0]
        assert not shown.table.primary_keys or newest == sorted(newest, reverse=True)
    if not shown.table.primary_keys and places:
        assert "append table: files in the order of writing" in shown.as_text()


@pytest.mark.long
def test_a_table_without_snapshots(tables_path):
    case = next(name for name in CASES if table(name).snapshots().is_empty())
    shown = Levels(table(case))
    assert (shown.at, shown._picture.boxes, message(shown)) == (0, (), "")
    assert "no files" in shown.drawing().description
    assert shown.frame().collect().height == 0
    shown.forward()
    shown.back()
    assert shown.play() == ()


def test_postponed_files_are_not_read(flights):
    case = next(name for name in CASES if name.startswith("bucket_postpone") and -2 in table(name).files()["bucket"].to_list())
    shown = Levels(table(case), bucket=-2)
    assert shown._states[-1].files
    assert "postponed" in shown.as_text()
    key = shown._states[-1].files[0].min_key
    shown.probe = ", ".join(map(typed, key))
    assert (shown.lit, message(shown)) == ((), "")


# ---- time -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_added_files_are_outlined_and_removed_ones_are_ghosts(flights):
    shown = Levels(flights, bucket=0)
    for number in range(1, 11):
        shown.at = number
        now, before = (set(flights.files(at=at).filter(pl.col("bucket") == 0)["file_name"]) if at else set() for at in (number, number - 1))
        state = shown._states[-1]
        assert state.added_names == now - before
        assert {file.name for file in state.removed_files} == before - now
        looks = {box.files[0].name: box.state for box in shown._picture.boxes}
        assert {name for name, look in looks.items() if look == "added"} == now - before
        assert {name for name, look in looks.items() if look == "removed"} == before - now


def test_steps_of_a_compaction(flights):
    shown = Levels(flights, at=9, bucket=0)
    assert shown.steps() == (5, 6, 7, 8)
    assert shown.play() == (5, 6, 7, 8)
    assert (shown.at, shown._play.playing, shown._play.interval) == (5, True, 1200)
    seen = [shown.at]
    for index in range(shown._play.min + 1, shown._play.max + 1):  # what the front end does by its clock
        shown._play.value = index
        seen.append(shown.at)
    assert seen == [5, 6, 7, 8]
    shown.at = 2
    assert (shown.at, shown.steps()) == (2, (1, 2, 3, 4, 5))
    shown.back()
    shown.back()
    assert shown.at == 1
    shown.forward()
    assert shown.at == 2
    shown.play(interval_ms=300)
    assert (shown._play.min, shown._play.max, shown.at) == (0, 4, 1)


def test_two_snapshots_on_one_axis(flights):
    shown = Levels(flights, at=8, bucket=0)
    shown.compare_to = 5
    older, newer = shown._states
    assert (older.snapshot_id, newer.snapshot_id) == (5, 8)
    assert newer.added_names == {file.name for file in newer.files} - {file.name for file in older.files}
    words = [mark.text for mark in shown._picture.shapes if isinstance(mark, TextShape)]
    assert words.index("snapshot 5") < words.index("snapshot 8")
    both = [box for box in shown._picture.boxes if box.files[0].name in {file.name for file in older.files} & {file.name for file in newer.files}]
    assert len({(box.left, box.width) for box in both}) == len(both) / 2
    shown.probe = "2013-02-08"
    for state in shown._states:
        expected = picture.planned_file_names(flights, pl.col("day") == date(2013, 2, 8), state.snapshot_id) & {file.name for file in state.files}
        assert state.opened_names == expected
    gone = next(box for box in Levels(flights, at=8, bucket=0)._picture.boxes if box.state == "removed")
    shown.selected = gone.files[0].name
    assert "is not in this bucket" in shown._detail.value


# ---- traits ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_click_is_a_value_a_line_of_python_and_a_frame(flights):
    shown = Levels(flights)
    told = []
    shown.observe(lambda change: told.append(change["new"]), "selected")
    box = shown._picture.boxes[-1]
    shown._canvas.selected_key = box.key
    assert told == [box.name] == [shown.selected]
    assert eval(shown.code, {"lk": lk, "pl": pl}).collect().equals(shown.frame().collect())
    assert box.name in shown._detail.value
    assert shown.frame().select(pl.len(), pl.col("_file").unique().first()).collect().row(0) == (box.files[0].row_count, box.name)
    shown._first_rows.click()
    assert shown._rows.value.count("<tr>") == 11
    shown.selected = ""
    assert (shown._canvas.selected_key, shown._rows.value, shown._first_rows.disabled) == ("", "", True)
    assert eval(shown.code, {"lk": lk, "pl": pl}).collect().equals(shown.frame().collect())
    rows = sum(Levels(flights, bucket=number).frame().select(pl.len()).collect().item() for number in (0, 1))
    assert rows == flights.scan().select(pl.len()).collect().item()


def test_a_removed_file_is_read_where_it_still_was(flights):
    shown = Levels(flights, at=8, bucket=0)
    ghost = next(box for box in shown._picture.boxes if box.state == "removed")
    shown._canvas.selected_key = ghost.key
    assert shown.selected == ghost.name
    assert shown._canvas.selected_key == ghost.key
    assert ".scan(at=7, raw=True)" in shown.code
    assert shown.frame().select(pl.len()).collect().item() == ghost.files[0].row_count


def test_a_removed_file_that_no_snapshot_has_any_more_says_so(tables_path):
    shown = Levels(lk.open(tables_path / "history_expired_compactions"))
    ghost = next(box for box in shown._picture.boxes if box.state == "removed")
    shown._canvas.selected_key = ghost.key
    assert "was removed by snapshot 5, and the snapshots that had it have expired" in shown._detail.value
    with pytest.raises(lk.errors.NotFound, match="have expired"):
        shown.frame()
    shown._first_rows.click()
    assert "have expired" in shown._rows.value


@pytest.mark.long
def test_traits_are_linked(flights):
    one, two = Levels(flights), Levels(flights)
    for name in ("at", "bucket", "selected", "probe", "filter", "compare_to"):
        traitlets.link((one, name), (two, name))
    one.at, one.bucket, one.probe = 8, 1, "2013-02-08"
    assert (two.at, two.bucket, two.probe, two.lit) == (8, 1, "2013-02-08", one.lit)
    two.selected = two._picture.boxes[0].files[0].name
    assert one.selected == two.selected
    assert one._canvas.selected_key
    one._slider.value = 3
    assert two.at == 3
    with pytest.raises(traitlets.TraitError):
        one.lit = ()


def test_every_partition_is_offered(flights):
    case = next(name for name in KEYED if facts(name).partition_keys and len(picture.list_buckets(table(name).files())) > 2)
    shown = Levels(table(case))
    offered = {value for _, value in shown._partition.options}
    assert offered == set(table(case).files()["partition"])
    for partition in offered:
        shown._partition.value = partition
        assert shown.partition == partition
        assert shown._states[-1].files
        wanted = table(case).files().filter((pl.col("partition") == partition) & (pl.col("bucket") == shown.bucket))
        assert shown.frame().collect().height <= wanted["row_count"].sum()


# ---- what it costs, and what it survives ----------------------------------------------------------------------------------------------------


def test_a_repr_reads_nothing_and_opening_reads_one_snapshot():
    found = in_memory("dedup_levels")
    shown = Levels(found)
    lists = {row["snapshot_id"]: {row["base_manifest_list"], row["delta_manifest_list"]} for row in found.snapshots().iter_rows(named=True)}
    newest = max(lists)
    read = {path.rpartition("/")[2] for kind, path in found.storage.trace if kind == "read"}
    older = set().union(*(names for number, names in lists.items() if number != newest)) - lists[newest]
    assert older
    assert not read & older
    found.storage.trace.clear()
    repr(shown)
    bundle = shown._repr_mimebundle_()
    assert found.storage.trace == []
    assert {"image/png", "text/html", "text/plain"} <= set(bundle)


def test_a_table_that_is_gone_is_told_and_not_raised():
    found = in_memory("dedup_levels")
    shown = Levels(found)
    name = shown._picture.boxes[0].name
    found.storage.files.clear()
    shown._canvas.selected_key = name
    assert shown.selected == name
    assert name in shown._detail.value
    shown._first_rows.click()
    assert 'role="alert"' in shown._rows.value
    shown.back()
    assert message(shown)
    assert shown._picture.boxes == ()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attributes)


HOSTILE = ("<script>alert(1)</script>", "\"><img src=x onerror='alert(1)'>", "</style><b>", "&lt;i&gt;", "\u202eevil\x1b[31m")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(fixtures_path, name, monkeypatch):
    source = fixtures_path / "tables" / "dedup_levels"
    found = lk.Table(location="memory", name=name, storage=copied(source))
    every = picture.read_live_files
    monkeypatch.setattr(picture, "read_live_files", lambda *asked: every(*asked).with_columns(pl.lit(name).alias("partition"), pl.lit(name).alias("file_name")))
    shown = Levels(found, partition=name)
    shown.selected = name
    shown.probe, shown.filter = name, name
    for page in (shown._canvas._background.value, shown._message.value, shown._detail.value, shown.as_html()):
        tags = Tags()
        tags.feed(page)
        assert tags.seen <= {"style", "i", "p", "div", "table", "caption", "b", "tbody", "thead", "tr", "th", "td"}
        assert "\x1b" not in page
    assert "\x1b" not in shown.as_text()
    assert name == shown.selected


def many(number: int) -> pl.DataFrame:
    """Files made up as facts: a fifth in level 0, the others in three runs."""
    at = pl.int_range(number)
    level = pl.when(at % 5 == 0).then(0).otherwise(3 + at % 3).cast(pl.Int32)
    low = pl.when(at % 5 == 0).then(at * 7 % number).otherwise(at)
    return pl.select(
        pl.lit("").alias("partition"),
        pl.lit(0, pl.Int32).alias("bucket"),
        level.alias("level"),
        pl.format("data-{}.parquet", at).alias("file_name"),
        (at % 97 + 1).alias("row_count"),
        (at % 89 * 1000).alias("size_bytes"),
        pl.lit(0, pl.Int64).alias("delete_row_count"),
        (at % 7).alias("deleted_row_count"),
        pl.struct(low.alias("k")).alias("min_key"),
        pl.struct((low + pl.when(at % 5 == 0).then(number // 10).otherwise(0)).alias("k")).alias("max_key"),
        at.alias("min_sequence_number"),
        at.alias("max_sequence_number"),
        pl.lit(0, pl.Int64).alias("schema_id"),
        pl.lit("APPEND").alias("source"),
        pl.lit(None, pl.Datetime("ms")).alias("creation_time"),
    )


def spent(number: int, turns: int) -> float:
    """Processor seconds to lay out so many files, the best of some turns."""
    files, took = many(number), []
    for _ in range(turns):
        start = time.process_time()
        state = picture.bucket_state(1, files, None, picture.BucketLocation(partition="", bucket=0), is_append=False)
        found = levels.build_picture("many", [state])
        took.append(time.process_time() - start)
        assert sum(len(box.files) for box in found.boxes) == number
        assert len(found.boxes) <= levels.MAX_BOXES
    return min(took)


@pytest.mark.long
def test_ten_thousand_files_are_laid_out_without_freezing():
    few, lots = spent(1000, 3), spent(10_000, 1)
    assert lots < max(30 * few, 2.0), f"{few:.3f} s for 1,000 files, {lots:.3f} s for 10,000"


@pytest.mark.long
def test_a_widget_of_ten_thousand_files(flights, monkeypatch):
    monkeypatch.setattr(picture, "read_live_files", lambda *_: many(10_000))
    monkeypatch.setattr(picture, "read_snapshot_changes", lambda *_: picture.SnapshotChanges(removed_files=many(10).clear(), added_files=many(10).clear()))
    shown = Levels(flights)
    assert len(shown._canvas._boxes) == len(shown._picture.boxes) <= levels.MAX_BOXES
    assert "10 000 files are more than can be drawn" in shown.as_html() + shown.drawing().description + shown._canvas._background.value
    shown.selected = "data-9998.parquet"
    assert shown._canvas.selected_key
    assert "in this box" in shown._detail.value
