"""The scenarios of ENGINE 14 that a writer decides: the reference engine and lakekit take the same steps, and the reference tells what came of them."""

from __future__ import annotations

import pytest

from spec_tests.differential.judge import Refused
from spec_tests.differential.players import ByLakekit, ByReference, rows_read
from spec_tests.differential.scripts import Alter, Compact, Overwrite, Script, Write

pytestmark = pytest.mark.reference
KEPT = {"write-only": "true"}
"""Files stay where writers put them until a compaction is asked for."""


class Played:
    """A table, the one who writes it, and the judge who tells of it."""

    def __init__(self, judge, player, path):
        self.judge, self.player, self.path = judge, player, path

    def create(self, schema, *, keys=("k",), partitions=(), **options):
        given = {"bucket": "1", **{name.replace("__", "-").replace("_", "."): text for name, text in options.items()}}
        fields = dict(part.strip().split(" ", 1) for part in schema.split(","))
        drawn = Script(seed=0, engine="", schema=fields, primary_keys=keys, partition_keys=partitions, options=given, controlled=True, steps=())
        self.player.create(self.path, drawn)
        return self

    def take(self, step, **options):
        self.player.take(self.path, step, {name.replace("__", "-").replace("_", "."): text for name, text in options.items()})
        return self

    def write(self, *rows, **options):
        """Rows as ("-D", 1, "a") or (1, "a")."""
        kinds = ("+I", "-U", "+U", "-D")
        return self.take(Write(rows=tuple((row[0], row[1:]) if row[0] in kinds else ("+I", row) for row in rows)), **options)

    def rows(self, system=None, columns=None):
        """What the reference reads; of the table itself lakekit reads the same."""
        found = sorted((values for _, values in self.judge.read(self.path, system=system, columns=columns).rows), key=repr)
        if system is None:
            assert sorted((values for _, values in rows_read(self.path)), key=repr) == found
        return found

    def files(self):
        return self.judge.files(self.path)

    def kinds(self):
        return [one.kind for one in self.judge.snapshots(self.path)]

    def changes(self, since=1):
        return [row for part in self.judge.changelog(self.path, since=since).values() for row in part]


@pytest.fixture(params=["reference", "lakekit"])
def table(request, judge, tmp_path):
    player = ByReference(judge) if request.param == "reference" else ByLakekit()
    return Played(judge, player, str(tmp_path / "db.db" / "t"))


def test_scenario_1_a_default_does_not_rescue_a_column_that_is_not_null(table):
    table.create("k INT NOT NULL, v INT NOT NULL").take(Alter(changes=(("update_default", "v", "5"),)))
    with pytest.raises(Refused, match=r"(?i)null"):
        table.write((1, None))
    assert table.kinds() == []


def test_scenario_2_a_default_replaces_null(table):
    table.create("k INT NOT NULL, v INT").take(Alter(changes=(("update_default", "v", "5"),)))
    table.write((1, None), ("+U", 2, 7))
    assert table.rows() == [(1, 5), (2, 7)]


def test_scenario_3_an_ignored_delete_takes_no_sequence_number(table):
    table.create("k INT NOT NULL, v STRING", ignore__delete="true", **KEPT)
    table.write((1, "a"), ("-D", 1, "a"))
    assert table.rows() == [(1, "a")]
    assert [(file.min_sequence, file.max_sequence, file.deletes) for file in table.files()] == [(0, 0, 0)]
    table.write((2, "b"))
    assert {file.max_sequence for file in table.files()} == {0, 1}


def test_scenario_4_one_flush_keeps_one_row_a_key(table):
    table.create("k INT NOT NULL, v STRING", **KEPT)
    table.write((1, "a"), (1, "b"), ("-D", 2, None))
    assert [(file.level, file.rows, file.deletes, file.min_sequence, file.max_sequence) for file in table.files()] == [(0, 2, 1, 1, 2)]
    assert table.rows() == [(1, "b")]


def test_scenario_5_an_older_sequence_arrives_later(table):
    table.create("k INT NOT NULL, v STRING, ts INT", sequence_field="ts", **KEPT)
    table.write((1, "a", 10)).write((1, "b", 5))
    assert table.rows() == [(1, "a", 10)]
    table.take(Compact(full=True))
    assert table.rows() == [(1, "a", 10)]
    assert [(file.rows, file.min_sequence, file.max_sequence) for file in table.files()] == [(1, 0, 0)]


def test_scenario_7_large_files_that_do_not_overlap_are_only_lifted(table):
    table.create("k INT NOT NULL, v STRING", target__file__size="512 b", **KEPT)
    table.write((1, "a"), (2, "b")).write((3, "c"), (4, "d"))
    names = {file.name for file in table.files()}
    table.take(Compact(full=True))
    assert {file.name for file in table.files()} == names
    assert {file.level for file in table.files()} == {5}
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_scenario_8_a_file_of_nothing_but_deletes_disappears(table):
    table.create("k INT NOT NULL, v STRING", **KEPT)
    table.write(("-D", 1, "a"))
    table.take(Compact(full=True))
    assert table.files() == []
    assert table.kinds() == ["APPEND", "COMPACT"]


def test_scenario_9_a_lone_delete_is_absent_and_refused_once_it_meets_a_row(table):
    table.create("k INT NOT NULL, v STRING", merge__engine="partial-update", **KEPT)
    if isinstance(table.player, ByLakekit):  # which refuses it at once: the next row of the key would make the table unreadable
        with pytest.raises(Refused, match="can not accept delete"):
            table.write(("-D", 1, "a"))
        return
    table.write(("-D", 1, "a"))
    assert table.rows() == []
    table.write((1, "b"))
    with pytest.raises(Refused, match="delete"):
        table.judge.read(table.path)
    with pytest.raises(Refused, match="delete"):
        rows_read(table.path)


def test_scenario_10_a_lone_row_without_its_sequence_keeps_its_group(table):
    table.create("k INT NOT NULL, a INT, g INT", merge__engine="partial-update", fields_g_sequence__group="a", **KEPT)
    table.write((1, 7, None))
    assert table.rows() == [(1, 7, None)]
    table.write((1, None, 3))
    assert table.rows() == [(1, None, 3)]
    table.take(Compact(full=True))
    assert table.rows() == [(1, None, 3)]


def test_scenario_11_a_delete_comes_first(table):
    table.create("k INT NOT NULL, v INT", merge__engine="aggregation", fields_v_aggregate__function="sum", **KEPT)
    table.write(("-D", 1, 5))
    assert table.rows() == []
    assert table.files()[0].deletes == 1
    table.write((1, 7))
    assert table.rows() == [(1, 2)]


def test_scenario_12_first_row_drops_a_second_insert(table):
    table.create("k INT NOT NULL, v STRING", merge__engine="first-row", changelog__producer="lookup")
    table.write((1, "a"))
    assert table.changes() == [("+I", (1, "a"))]
    newest = len(table.kinds())
    table.write((1, "b"))
    assert table.rows() == [(1, "a")]
    assert table.changes(since=newest + 1) == []


def test_scenario_13_input_changelogs_keep_every_row_of_a_flush(table):
    table.create("k INT NOT NULL, v STRING", changelog__producer="input", **KEPT)
    rows = [("+I", (1, "a")), ("+I", (1, "b")), ("-U", (1, "b")), ("+U", (1, "c"))]
    table.take(Write(rows=tuple(rows)))
    assert table.changes() == rows
    assert [file.rows for file in table.files()] == [1]


def test_scenario_14_equal_values_leave_no_changelog(table):
    table.create("k INT NOT NULL, v STRING", changelog__producer="lookup", changelog__producer_row__deduplicate="true")
    table.write((1, "a"))
    newest = len(table.kinds())
    table.write((1, "a"))
    assert table.changes(since=newest + 1) == []
    table.write((1, "b"))
    assert table.changes(since=newest + 1) == [("-U", (1, "a")), ("+U", (1, "b"))]


@pytest.mark.parametrize("options", [{}, {"dynamic__partition__overwrite": "false"}])
def test_scenarios_18_and_19_overwriting_with_no_rows(table, options):
    table.create("p INT, k INT, v STRING", keys=("p", "k"), partitions=("p",))
    table.write((1, 1, "a"), (2, 2, "b"))
    table.take(Overwrite(rows=(), partition="whole" if options else None))
    assert table.rows() == ([] if options else [(1, 1, "a"), (2, 2, "b")])
    assert table.kinds() == (["APPEND", "OVERWRITE"] if options else ["APPEND"])


def test_scenario_27_an_update_shows_after_compaction_as_a_vector(table):
    table.create("k INT NOT NULL, v STRING", deletion__vectors_enabled="true", **KEPT)
    table.write((1, "a"), (2, "b"), (3, "c")).take(Compact(full=True))
    table.write((2, "z"))
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c")]
    table.take(Compact(full=False))
    assert table.rows() == [(1, "a"), (2, "z"), (3, "c")]


def test_scenario_28_dynamic_buckets_fill_up(table):
    table.create("k INT NOT NULL, v STRING", bucket="-1", dynamic__bucket_target__row__num="2")
    table.write(*((k, "a") for k in range(1, 6)))
    places = {values[0]: bucket for _, bucket, values in table.judge.placed(table.path)}
    assert places == {1: 0, 2: 0, 3: 1, 4: 1, 5: 2}
    table.write((1, "b"), (6, "a"), (7, "a"))
    places = {values[0]: bucket for _, bucket, values in table.judge.placed(table.path)}
    assert places == {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2, 7: 3}


def test_scenario_29_a_key_moves_to_another_partition(table):
    table.create("k INT NOT NULL, p STRING, v INT", partitions=("p",), bucket="-1")
    table.write((1, "p1", 1)).write((1, "p2", 2))
    assert table.rows() == [(1, "p2", 2)]
    assert [(partition, bucket) for partition, bucket, _ in table.judge.placed(table.path)] == [("p=p2/", 0)]


def test_scenario_32_a_partition_keeps_its_number_of_buckets(table):
    table.create("p INT, k INT, v STRING", keys=("p", "k"), partitions=("p",), bucket="2")
    rows = [(1, k, "a") for k in range(9)]
    table.write(*rows)
    table.take(Alter(changes=(("set_option", "bucket", "4"),)))
    with pytest.raises(Refused, match="2"):
        table.write(*rows)
    table.write((2, 1, "d"))
    assert table.rows() == [*rows, (2, 1, "d")]
    table.take(Overwrite(rows=tuple(("+I", row) for row in rows[4:]), partition=None))
    assert table.rows() == [*rows[4:], (2, 1, "d")]
    assert {file.total_buckets for file in table.files()} == {4}
