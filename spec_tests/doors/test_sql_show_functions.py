"""SHOW FUNCTIONS lists the table by which conditions are translated."""

import lakekit as lk
from lakekit.expressions.functions import FORMS, all_functions


def test_all_functions_are_listed_under_each_name(tmp_path):
    shown = lk.connect(str(tmp_path)).sql("SHOW FUNCTIONS")
    assert shown.columns == ["function", "arguments", "result", "note", "in_spark"]
    assert shown["function"].to_list() == [*(name for function in all_functions() for name in function.names), *FORMS]
    note = all_functions_by_name()["upper"].note
    assert shown.filter(shown["function"] == "upper").row(0) == ("upper", "STRING", "STRING", note, "several letters for one: ß is SS")
    assert shown.filter(shown["function"] == "abs")["in_spark"].to_list() == [""]


def all_functions_by_name():
    return {name: function for function in all_functions() for name in function.names}


def test_a_pattern_chooses(tmp_path):
    names = lk.connect(str(tmp_path)).sql("SHOW FUNCTIONS LIKE 'regexp*'")["function"].to_list()
    assert names
    assert all(name.startswith("regexp") for name in names)
