"""The law of the door: a query on a scan answers what the same query answers on the collected rows, over golden tables of every kind."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from spec_tests.doors.views import CASES, collected, facts, in_memory, in_slices, table
from spec_tests.query_strategies import Query, difference, queries, rows

FAMILIES = {
    "append": ("table.append",),
    "deduplicate": ("merge-engine.deduplicate",),
    "first row": ("merge-engine.first-row",),
    "partial update": ("merge-engine.partial-update",),
    "aggregation": ("merge-engine.aggregation",),
    "sequence fields": ("sequence.",),
    "deletion vectors": ("deletion-vectors.",),
    "evolution": ("schema.",),
    "partitions": ("partition",),
    "orc": ("file.format.orc",),
    "avro": ("file.format.avro",),
    "thin": ("data-file.thin-mode", "thin-mode"),
    "buckets": ("bucket.dynamic", "bucket.cross-partition", "bucket.postpone", "bucket.rescale", "bucket-function."),
    "file indexes": ("file-index",),
    "branches": ("branch", "scan.fallback-branch"),
    "types": ("types", "key."),
}
SLICED = [name for name in CASES if facts(name).primary_keys]
FEW = settings(max_examples=max(6, settings.default.max_examples // 6), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def family(features: tuple[str, ...]) -> list[str]:
    return [name for name in CASES if any(own.startswith(features) for own in facts(name).features)]


def same(case: str, lazy, data) -> None:
    full = collected(case)
    if full is None:
        with pytest.raises(lk.LakekitError):
            lazy.collect()
        return
    assert (found := difference(data.draw(queries(full)), lazy, full)) is None, f"{case}: {found}"


@pytest.mark.long
@pytest.mark.parametrize("kind", FAMILIES)
def test_queries_of_golden_tables(kind):
    cases = family(FAMILIES[kind])
    assert cases

    @FEW
    @given(st.data())
    def law(data):
        case = data.draw(st.sampled_from(cases))
        same(case, table(case).scan(), data)

    law()


def test_what_polars_cannot_ask_of_an_outgrown_decimal_says_nothing():
    """The reference engine lets a sum outgrow its DECIMAL; over one such row alone Polars panics, whoever made the frame."""
    case = "aggregate_sum_types"
    asked = Query(before=(pl.col("k") == 1,), asks="distinct")
    # when this fails, `difference` needs no exception any more
    with pytest.raises(pl.exceptions.PanicException, match="decimal precision 5"):
        rows(asked.of(collected(case).lazy()))
    assert difference(asked, table(case).scan(), collected(case)) is None
    assert difference(Query(before=(pl.col("k") == 1,)), table(case).scan().head(0), collected(case)) is not None


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES)
def test_many_queries_of_every_golden_table(case):
    ways = [_scanned(found) for found in (table(case), in_memory(case), in_slices(case))]

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def law(data):
        same(case, data.draw(st.sampled_from(ways)), data)

    law()


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("view", [table, in_memory, in_slices])
@pytest.mark.parametrize(
    "case", ["append_plain", "dedup_levels", "first_row_partitioned", "partial_partitioned_buckets", "aggregate_projection", "types_key_decimals_orc"]
)
def test_rows_are_numbered_where_no_column_is_asked_for(case, view, engine):
    full, lazy = collected(case), view(case).scan()
    of = pl.col(full.columns[0])
    for asked in (lazy, lazy.head(2), lazy.filter(of.is_not_null()), lazy.filter(of.is_null()), pl.concat([lazy, lazy])):
        height = asked.collect().height
        assert asked.with_row_index("at").select("at").collect(engine=engine)["at"].to_list() == list(range(height))


@pytest.mark.long
@FEW
@given(st.data())
def test_queries_without_native_scans(data):
    case = data.draw(st.sampled_from(CASES))
    same(case, _scanned(in_memory(case)), data)


@pytest.mark.long
@FEW
@given(st.data())
def test_queries_of_merges_in_slices(data):
    case = data.draw(st.sampled_from(SLICED))
    same(case, _scanned(in_slices(case)), data)


def _scanned(found):
    try:
        return found.scan()
    except lk.LakekitError as refused:
        return _Refused(refused)


class _Refused:
    def __init__(self, refused):
        self.refused = refused

    def collect(self):
        raise self.refused


@pytest.mark.long
@FEW
@given(st.data())
def test_queries_of_stored_versions(data):
    case = data.draw(st.sampled_from(CASES))
    try:
        lazy = table(case).scan(raw=True)
        full = lazy.collect()
    except lk.LakekitError:
        return
    assert (found := difference(data.draw(queries(full)), lazy, full)) is None, f"{case}: {found}"


@pytest.mark.long
@FEW
@given(st.data())
def test_queries_of_changes(data):
    case, mode = data.draw(st.sampled_from(CASES)), data.draw(st.sampled_from(["auto", "delta", "diff"]))
    try:
        lazy = table(case).changes(0, mode=mode)
        full = lazy.collect()
    except lk.LakekitError:
        return
    assert (found := difference(data.draw(queries(full)), lazy, full)) is None, f"{case} {mode}: {found}"


@FEW
@given(st.data())
def test_queries_of_system_tables(data):
    case = data.draw(st.sampled_from(CASES))
    name = data.draw(st.sampled_from(["audit_log", "binlog", "ro", "files", "snapshots", "partitions", "manifests"]))
    try:
        lazy = table(case).system(name)
        full = lazy.collect()
    except lk.LakekitError:
        return
    assert (found := difference(data.draw(queries(full)), lazy, full)) is None, f"{case} {name}: {found}"


@pytest.mark.long
@FEW
@given(st.data())
def test_queries_of_older_snapshots(data):
    case = data.draw(st.sampled_from(CASES))
    ids = table(case).snapshots()["snapshot_id"].to_list()
    if ids:
        at = data.draw(st.sampled_from(ids))
        try:
            lazy = table(case).scan(at=at)
            full = lazy.collect()
        except lk.LakekitError:
            return
        assert (found := difference(data.draw(queries(full)), lazy, full)) is None, f"{case} at {at}: {found}"


def unlike(view, cases) -> list[str]:
    """The cases that a view shows otherwise than a plain scan."""
    wrong = []
    for case in cases:
        full = collected(case)
        try:
            found = view(case).scan().collect()
        except lk.LakekitError:
            found = None
        if (full is None) != (found is None) or (full is not None and (full.schema != found.schema or sorted(rows(full)) != sorted(rows(found)))):
            wrong.append(case)
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("view", [in_memory, in_slices])
def test_rows_do_not_depend_on_the_way_they_are_read(view):
    assert unlike(view, sorted({case for names in FAMILIES.values() for case in family(names)[-2:]})) == []


@pytest.mark.deep
@pytest.mark.parametrize("view", [in_memory, in_slices])
def test_rows_of_every_table_do_not_depend_on_the_way_they_are_read(view):
    assert unlike(view, CASES) == []
