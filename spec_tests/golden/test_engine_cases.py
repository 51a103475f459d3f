"""The worked cases of ENGINE 1.3, 3.2-3.5 and 14: rows applied in order, and what is held after each."""

from __future__ import annotations

import polars as pl
import pytest

from lakekit.errors import InvalidOption, LakekitError, SchemaMismatch, Unsupported, ValueOutOfRange
from lakekit.lsm import merge as lsm_merge
from lakekit.lsm.merge import merge_section
from lakekit.testing.strategies import MergeCase, field_of, to_dicts

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
N = None


def table(columns, *, engine, key="k", **options):
    """`columns`: "k INT NOT NULL, a INT"; options with dots are given as a mapping under `more`."""
    more = options.pop("more", {})
    fields = tuple(field_of(*column.strip().split(" ", 1)) for column in columns.split("; "))
    return fields, tuple(key.split(",")), {"merge-engine": engine, **options, **more}


def merging(definition, rows):
    fields, key, options = definition
    versions = tuple((KINDS[row[0]], number, row[2] if len(row) > 2 else 0, tuple(row[1])) for number, row in enumerate(rows))
    return MergeCase(fields=fields, key=key, options=options, versions=versions)


def result(definition, rows, *, keep_deletes=True):
    """(kind, values) of each key, sorted by key."""
    case = merging(definition, rows)
    merged = to_dicts(merge_section(case.frame(), case.rule, keep_deletes=keep_deletes).sort(case.key))
    kinds = {kind: text for text, kind in KINDS.items()}
    return [(kinds[row["_VALUE_KIND"]], tuple(row[one.name] for one in case.fields)) for row in merged]


def steps(definition, rows, expected):
    """Each row and what the rows up to it make; `expected` holds (kind, values)."""
    for count, want in enumerate(expected, start=1):
        assert result(definition, rows[:count]) == [want], f"after row {count}"


def inserts(*rows):
    return [("+I", row) for row in rows]


# ---- 1.3 and 3.2 -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "winner"), [("ascending", (1, "c", 10)), ("descending", (1, "b", 5))])
def test_sequence_field(order, winner):
    definition = table("k INT NOT NULL; v STRING; ts INT", engine="deduplicate", more={"sequence.field": "ts", "sequence.field.sort-order": order})
    assert result(definition, inserts((1, "a", 10), (1, "b", 5), (1, "c", 10), (1, "d", N))) == [("+I", winner)]


def test_deduplicate():
    definition = table("k INT NOT NULL; v STRING", engine="deduplicate")
    assert result(definition, inserts((1, "a"), (1, "b"))) == [("+I", (1, "b"))]
    gone = [*inserts((1, "a"), (1, "b")), ("-D", (1, N))]
    assert result(definition, gone, keep_deletes=False) == []
    assert result(definition, gone) == [("-D", (1, N))]


def test_a_smaller_delete_loses():
    definition = table("k INT NOT NULL; ts INT", engine="deduplicate", more={"sequence.field": "ts"})
    assert result(definition, [("+I", (1, 10)), ("-D", (1, 5))]) == [("+I", (1, 10))]


def test_ignore_delete_passes_over_old_deletes():
    definition = table("k INT NOT NULL; v STRING", engine="deduplicate", more={"ignore-delete": "true"})
    assert result(definition, [("+I", (1, "a")), ("-D", (1, N))]) == [("+I", (1, "a"))]
    assert result(definition, [("-D", (1, N)), ("-U", (1, N))]) == []
    assert result(definition, [("-D", (1, N))]) == [("-D", (1, N))]


# ---- 3.3 partial-update -----------------------------------------------------------------------------------------------------------------


def test_a_without_groups():
    definition = table("k INT NOT NULL; a DOUBLE; b BIGINT; c STRING", engine="partial-update")
    rows = inserts((1, 23.0, 10, N), (1, N, N, "This is a book"), (1, 25.2, N, N))
    assert result(definition, rows) == [("+I", (1, 25.2, 10, "This is a book"))]


def test_b_two_groups():
    definition = table(
        "k INT NOT NULL; a INT; b INT; g_1 INT; c INT; d INT; g_2 INT",
        engine="partial-update",
        more={"fields.g_1.sequence-group": "a,b", "fields.g_2.sequence-group": "c,d"},
    )
    rows = [*inserts((1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, N), (1, 3, 3, 1, 3, 3, 3)), ("-D", (1, 1, 1, 3, 1, 1, N))]
    expected = [(1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 1, 1, 1), (1, 2, 2, 2, 3, 3, 3), (1, N, N, 3, 3, 3, 3)]
    steps(definition, rows, [("+I", row) for row in expected])


def test_c_a_group_of_two_sequence_columns():
    definition = table(
        "k INT NOT NULL; a INT; b INT; g_1 INT; c INT; d INT; g_2 INT; g_3 INT",
        engine="partial-update",
        more={"fields.g_1.sequence-group": "a,b", "fields.g_2,g_3.sequence-group": "c,d"},
    )
    rows = inserts((1, 1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, 1, N), (1, 3, 3, 1, 3, 3, 3, 1))
    steps(definition, rows, [("+I", (1, 1, 1, 1, 1, 1, 1, 1)), ("+I", (1, 2, 2, 2, 1, 1, 1, 1)), ("+I", (1, 2, 2, 2, 3, 3, 3, 1))])


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ({"fields.b.aggregate-function": "first_value"}, (1, 2, 1, 2, 3)),
        ({"fields.default-aggregate-function": "last_non_null_value"}, (1, 2, 2, 2, 3)),
    ],
    ids=["d", "e"],
)
def test_d_and_e_functions_in_groups(options, last):
    definition = table(
        "k INT NOT NULL; a INT; b INT; c INT; d INT",
        engine="partial-update",
        more={"fields.a.sequence-group": "b", "fields.c.sequence-group": "d", "fields.d.aggregate-function": "sum", **options},
    )
    assert result(definition, inserts((1, 1, 1, N, N), (1, N, N, 1, 1), (1, 2, 2, N, N), (1, N, N, 2, 2))) == [("+I", last)]


def test_f_an_older_sequence_still_sums():
    definition = table(
        "k INT NOT NULL; a INT; b INT; g_1 INT; c STRING; g_2 INT; g_3 INT",
        engine="partial-update",
        more={"fields.g_1,g_3.sequence-group": "a", "fields.g_2.sequence-group": "c", "fields.a.aggregate-function": "sum"},
    )
    rows = inserts((1, 1, 1, 1, "1", 1, 1), (1, 2, 2, 2, "2", N, 2), (1, 3, 3, 2, "3", 3, 1))
    steps(definition, rows, [("+I", (1, 1, 1, 1, "1", 1, 1)), ("+I", (1, 3, 2, 2, "1", 1, 2)), ("+I", (1, 6, 3, 2, "3", 3, 2))])


def test_g_a_group_removes_rows():
    definition = table(
        "f0 INT NOT NULL; f1 INT; f2 INT; f3 INT; f4 INT; f5 INT; f6 INT",
        engine="partial-update",
        key="f0",
        more={
            "fields.f3.sequence-group": "f1,f2",
            "fields.f6.sequence-group": "f4,f5",
            "partial-update.remove-record-on-sequence-group": "f6",
        },
    )
    rows = [
        *inserts((1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, N), (1, 3, 3, 1, 3, 3, 3)),
        ("-D", (1, 1, 1, 3, 1, 1, N)),
        ("-D", (1, 1, 1, 3, 1, 1, 4)),
        ("+I", (1, 4, 4, 4, 5, 5, 5)),
        ("-D", (1, 1, 1, 6, 1, 1, 6)),
    ]
    expected = [
        ("+I", (1, 1, 1, 1, 1, 1, 1)),
        ("+I", (1, 2, 2, 2, 1, 1, 1)),
        ("+I", (1, 2, 2, 2, 3, 3, 3)),
        ("+I", (1, N, N, 3, 3, 3, 3)),
        ("-D", (1, 1, 1, 3, 1, 1, 4)),
        ("+I", (1, 4, 4, 4, 5, 5, 5)),
        ("-D", (1, 1, 1, 6, 1, 1, 6)),
    ]
    steps(definition, rows, expected)


@pytest.mark.parametrize(
    ("function", "rows", "held"),
    [("first_value", [(1, 2, 20), (1, 1, 10), (1, 3, 30)], (1, 3, 10)), ("last_non_null_value", [(1, 2, 20), (1, 1, 10), (1, 3, N)], (1, 3, 20))],
)
def test_h_older_sequences_come_before(function, rows, held):
    more = {"fields.g.sequence-group": "v", "fields.v.aggregate-function": function}
    assert result(table("k INT NOT NULL; g INT; v INT", engine="partial-update", more=more), inserts(*rows)) == [("+I", held)]


def test_i_remove_record_on_delete():
    definition = table("k INT NOT NULL; a INT; b INT; c INT", engine="partial-update", more={"partial-update.remove-record-on-delete": "true"})
    rows = [("+I", (1, 3, 5, 7)), ("-D", (1, 2, 2, N))]
    assert result(definition, rows) == [("-D", (1, 2, 2, N))]
    assert result(definition, [*rows, ("-U", (1, 9, 9, 9)), ("+I", (1, N, N, 4))]) == [("+I", (1, 2, 2, 4))]


def test_deletes_are_refused_where_they_meet_other_rows():
    definition = table("k INT NOT NULL; a INT", engine="partial-update")
    assert result(definition, [("-D", (1, 1))], keep_deletes=False) == []
    with pytest.raises(InvalidOption, match="By default, Partial update can not accept delete records") as refused:
        result(definition, [("-D", (1, 1)), ("+I", (1, 1))])
    for remedy in ("ignore-delete", "partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"):
        assert remedy in str(refused.value)


def test_a_null_for_a_column_without_nulls():
    definition = table("k INT NOT NULL; a INT NOT NULL; b INT", engine="partial-update")
    case = merging(definition, inserts((1, 1, 1), (1, N, 2)))
    with pytest.raises(SchemaMismatch, match="Field 1 can not be null") as refused:
        merge_section(case.frame(), case.rule)
    assert refused.value.column == "a"


def test_a_lone_row_keeps_what_its_null_sequence_protects():
    definition = table("k INT NOT NULL; a INT; g INT", engine="partial-update", more={"fields.g.sequence-group": "a"})
    assert result(definition, inserts((1, 7, N))) == [("+I", (1, 7, N))]
    assert result(definition, inserts((1, 7, N), (1, 8, 1))) == [("+I", (1, 8, 1))]
    assert result(definition, inserts((1, 7, N), (1, 8, N))) == [("+I", (1, N, N))]


@pytest.mark.parametrize("kinds", [("ignore-delete", "partial-update.remove-record-on-delete"), ("partial-update.remove-record-on-delete", "group")])
def test_conflicting_options(kinds):
    more = {name: "true" for name in kinds if name != "group"}
    if "group" in kinds:
        more["fields.g.sequence-group"] = "a"
    fields, key, options = table("k INT NOT NULL; a INT; g INT", engine="partial-update", more=more)
    with pytest.raises(InvalidOption, match="have conflicting behavior so should not be enabled at the same time"):
        lsm_merge.merge_spec_from_options(MergeCase(fields=fields, key=key, options=options, versions=()).schema)


# ---- 3.4 aggregation --------------------------------------------------------------------------------------------------------------------


def aggregated(function, values, *, kind="INT", retract=(), **options):
    """The value after all; `retract`: which of them are -U."""
    more = {"fields.v.aggregate-function": function, **{f"fields.v.{name.replace('_', '-')}": text for name, text in options.items()}}
    definition = table(f"k INT NOT NULL; v {kind}", engine="aggregation", more=more)
    rows = [("-U" if number in retract else "+I", (1, value)) for number, value in enumerate(values)]
    return result(definition, rows)[0][1][1]


def test_the_example_of_the_seeds():
    definition = table(
        "product_id BIGINT NOT NULL; price DOUBLE; sales BIGINT",
        engine="aggregation",
        key="product_id",
        more={"fields.price.aggregate-function": "max", "fields.sales.aggregate-function": "sum"},
    )
    assert result(definition, inserts((1, 23.0, 15), (1, 30.2, 20))) == [("+I", (1, 30.2, 35))]


TRUTH = {
    "sum": (5, 5, N, 8, 8, -5, 5, 2),
    "product": (5, 5, N, 15, 15, N, 5, 1),
    "max": (5, 5, N, 5, 5, Unsupported, Unsupported, Unsupported),
    "min": (5, 5, N, 3, 3, Unsupported, Unsupported, Unsupported),
    "last_value": (5, N, N, 3, 5, N, N, N),
    "last_non_null_value": (5, 5, N, 3, 5, N, 5, N),
    "first_value": (N, 5, N, 5, 3, Unsupported, Unsupported, Unsupported),
    "first_non_null_value": (5, 5, N, 5, 3, Unsupported, Unsupported, Unsupported),
    "count": (1, 1, 0, 2, 2, -1, 1, 0),
}
"""By function: (N,5) (5,N) (N,N) (5,3) (3,5), then the second value retracted: (N,5) (5,N) (5,3)."""
INPUTS = ((N, 5), (5, N), (N, N), (5, 3), (3, 5), (N, 5), (5, N), (5, 3))


@pytest.mark.parametrize("function", TRUTH)
@pytest.mark.parametrize("at", range(8), ids=[f"{'retract ' if at > 4 else ''}{pair}" for at, pair in enumerate(INPUTS)])
def test_truth_table(function, at):
    want = TRUTH[function][at]
    retract = (1,) if at > 4 else ()
    if want is Unsupported:
        with pytest.raises(Unsupported, match=f"Aggregate function '{function}' does not support retraction"):
            aggregated(function, INPUTS[at], retract=retract)
        assert aggregated(function, INPUTS[at], retract=retract, ignore_retract="true") == INPUTS[at][0]
    else:
        assert aggregated(function, INPUTS[at], retract=retract) == want


def test_count_leaves_a_lone_row_as_it_is():
    assert aggregated("count", (7,)) == 7


@pytest.mark.parametrize(
    ("kind", "values", "total"),
    [
        ("TINYINT", (127, 1), -128),
        ("SMALLINT", (32767, 1), -32768),
        ("INT", (2147483647, 1), -2147483648),
        ("BIGINT", (9223372036854775807, 1), -9223372036854775808),
    ],
)
def test_integers_wrap_at_their_width(kind, values, total):
    assert aggregated("sum", values, kind=kind) == total


def decimals(*texts):
    return [pl.Series([text]).cast(pl.Decimal(38, 2))[0] for text in texts]


def test_short_decimals_are_not_held_against_their_precision():
    first, second, total = decimals("1.50", "999.99", "1001.49")
    assert aggregated("sum", (first, second), kind="DECIMAL(5, 2)") == total


def test_long_decimals_become_null():
    value, fits = decimals("900000000000000000.00", "1")
    assert aggregated("sum", (value, value), kind="DECIMAL(20, 2)") is None
    assert aggregated("sum", (value, value, fits), kind="DECIMAL(20, 2)") == fits


def test_products_of_decimals_are_rounded_half_up():
    first, second, product = decimals("1.05", "1.10", "1.16")
    assert aggregated("product", (first, second), kind="DECIMAL(5, 2)") == product


@pytest.mark.parametrize("values", [(5, 0)])
def test_retracting_a_zero_from_a_product(values):
    with pytest.raises(ValueOutOfRange, match="/ by zero"):
        aggregated("product", values, retract=(1,))


@pytest.mark.parametrize(
    ("function", "values", "retract", "options", "held"),
    [
        ("collect", ([1, 2], [2, 3]), (), {"distinct": "true"}, [1, 2, 3]),
        ("collect", ([1, 2], [2, 3]), (), {}, [1, 2, 2, 3]),
        ("collect", ([1, 2, 2, 3], [2]), (1,), {}, [1, 2, 3]),
        ("collect", (N, [2]), (1,), {}, N),
    ],
)
def test_collect(function, values, retract, options, held):
    assert aggregated(function, values, kind="ARRAY<INT>", retract=retract, **options) == held


def as_map(pairs):
    return pairs if pairs is None else [{"key": key, "value": value} for key, value in pairs]


@pytest.mark.parametrize(
    ("values", "retract", "held"),
    [
        (([(1, "A"), (2, "B")], [(1, "a"), (2, "b"), (3, "c")]), (), [(1, "a"), (2, "b"), (3, "c")]),
        (([(1, "a"), (2, "b"), (3, "c")], [(1, "x")]), (1,), [(2, "b"), (3, "c")]),
        ((N, [(1, "x")]), (1,), N),
    ],
)
def test_merge_map(values, retract, held):
    assert aggregated("merge_map", [as_map(one) for one in values], kind="MAP<INT, STRING>", retract=retract) == as_map(held)


def test_merge_map_with_keytime():
    def timed(**entries):
        return as_map([(key, None if pair is None else {"v": pair[0], "ts": pair[1]}) for key, pair in entries.items()])

    kind = "MAP<STRING, ROW<v STRING, ts STRING>>"
    first = timed(product_name=("iPad", "100"), color=("Black", "100"))
    # times are texts: the worked case means "50" to be the older, which it is not, so it is written with three digits here
    then = timed(product_name=("iPad", "200"), price=("999", "200"), color=("White", "050"))
    held = aggregated("merge_map_with_keytime", (first, then), kind=kind)
    assert held == timed(product_name=("iPad", "200"), color=("Black", "100"), price=("999", "200"))
    assert aggregated("merge_map_with_keytime", (first, timed(color=("White", "50"))), kind=kind)[1]["value"]["v"] == "White"
    assert aggregated("merge_map_with_keytime", (first, timed(color=None)), kind=kind) == timed(product_name=("iPad", "100"))


@pytest.mark.parametrize(
    ("values", "options", "held"),
    [
        (("a,b", "b,c"), {}, "a,b,b,c"),
        (("a,b", "b,c"), {"distinct": "true"}, "a,b,c"),
        (("a", "b"), {"list_agg_delimiter": ";"}, "a;b"),
        (("a", "", N, "b"), {}, "a,b"),
        ((N, ""), {}, ""),
        (("a,a", ",a,,b"), {"distinct": "true"}, "a,a,b"),
    ],
)
def test_listagg(values, options, held):
    assert aggregated("listagg", values, kind="STRING", **options) == held


def test_nested_update_makes_one_wide_order():
    definition = table(
        "order_id BIGINT NOT NULL; user_name STRING; address STRING; sub_orders ARRAY<ROW<sub_order_id BIGINT, product_name STRING, price INT>>",
        engine="aggregation",
        key="order_id",
        more={"fields.sub_orders.aggregate-function": "nested_update", "fields.sub_orders.nested-key": "sub_order_id"},
    )

    def sub(number, name, price):
        return {"sub_order_id": number, "product_name": name, "price": price}

    rows = inserts((1, "ann", "here", N), (1, N, N, [sub(1, "pen", 2)]), (1, N, N, [sub(2, "ink", 5)]), (1, N, N, [sub(1, "pen", 3)]))
    kind, (key, user, address, orders) = result(definition, rows)[0]
    assert (kind, key, user, address) == ("+I", 1, "ann", "here")
    assert sorted(orders, key=lambda one: one["sub_order_id"]) == [sub(1, "pen", 3), sub(2, "ink", 5)]


def bitmap(*numbers):
    from pyroaring import BitMap

    return BitMap(numbers).serialize()


@pytest.mark.parametrize(
    ("first", "second", "both"), [((100, 101, 102), (103, 105), (100, 101, 102, 103, 105)), ((101, 103), (104, 106), (101, 103, 104, 106))]
)
def test_rbm32(first, second, both):
    from pyroaring import BitMap

    held = aggregated("rbm32", (bitmap(*first), bitmap(*second)), kind="BYTES")
    assert sorted(BitMap.deserialize(held)) == list(both)


def test_without_an_option_a_delete_retracts_and_the_row_stays():
    definition = table("k INT NOT NULL; v INT", engine="aggregation", more={"fields.v.aggregate-function": "sum"})
    assert result(definition, [("-D", (1, 5))]) == [("-D", (1, 5))]
    assert result(definition, [("-D", (1, 5)), ("+I", (1, 7))]) == [("+I", (1, 2))]


def test_rows_after_a_removed_one_build_on_it():
    more = {"fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true"}
    definition = table("k INT NOT NULL; v INT", engine="aggregation", more=more)
    rows = [("+I", (1, 1)), ("-D", (1, 5)), ("+I", (1, 7))]
    steps(definition, rows, [("+I", (1, 1)), ("-D", (1, 5)), ("+I", (1, 12))])


def test_an_unknown_function_is_refused_by_name_and_other_columns_stay_readable():
    definition = table("k INT NOT NULL; v INT; w INT", engine="aggregation", more={"fields.v.aggregate-function": "median"})
    case = merging(definition, inserts((1, 1, 1), (1, 2, 2)))
    with pytest.raises(Unsupported, match=r"function 'median' on column v; lakekit merges .*sum.*t\.scan\(raw=True\)"):
        lsm_merge.required_columns(case.rule, ["k", "v"])
    assert lsm_merge.required_columns(case.rule, ["w"]) == {"k", "w"}
    assert merge_section(case.frame().drop("v"), case.rule)["w"].to_list() == [2]


def test_a_type_that_a_function_does_not_take():
    definition = table("k INT NOT NULL; v STRING", engine="aggregation", more={"fields.v.aggregate-function": "sum"})
    case = merging(definition, inserts((1, "a"), (1, "b")))
    with pytest.raises(InvalidOption, match="Data type for sum column must be 'NumericType' but was 'STRING'"):
        merge_section(case.frame(), case.rule)


def test_an_unknown_engine_is_refused_by_name():
    fields, key, options = table("k INT NOT NULL", engine="newest-wins")
    with pytest.raises(Unsupported, match="merge-engine 'newest-wins'; lakekit merges aggregation, deduplicate, first-row, partial-update"):
        lsm_merge.merge_spec_from_options(MergeCase(fields=fields, key=key, options=options, versions=()).schema)


# ---- 2.7, 3.1 and 3.5 -------------------------------------------------------------------------------------------------------------------


def test_first_row():
    definition = table("k INT NOT NULL; v STRING", engine="first-row")
    assert result(definition, inserts((1, "a"), (1, "b"))) == [("+I", (1, "a"))]
    with pytest.raises(InvalidOption, match="By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records"):
        result(definition, [("+I", (1, "a")), ("-D", (1, "a"))])
    assert result(definition, [("-D", (1, "a"))], keep_deletes=False) == []


@pytest.mark.parametrize("option", [{"changelog-producer": "lookup"}, {"force-lookup": "true"}, {"deletion-vectors.enabled": "true"}])
def test_lookup_tables_merge_level_0_with_the_lowest_higher_row(option):
    more = {"fields.v.aggregate-function": "sum", **option}
    definition = table("k INT NOT NULL; v INT", engine="aggregation", more=more)
    rows = [("+I", (1, 11), 5), ("+I", (1, 12), 3), ("+I", (1, 4), 0)]
    assert result(definition, rows) == [("+I", (1, 16))]
    assert result(table("k INT NOT NULL; v INT", engine="aggregation", more={"fields.v.aggregate-function": "sum"}), rows) == [("+I", (1, 27))]


def test_every_refusal_is_an_error_of_lakekit():
    for name in (InvalidOption, SchemaMismatch, Unsupported, ValueOutOfRange):
        assert issubclass(name, LakekitError)
