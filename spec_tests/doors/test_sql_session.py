"""A session keeps what statements leave behind for those after them: the database of USE, catalogs, temporary views."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT, day STRING); INSERT INTO shop.orders VALUES (1, 'mon'), (2, 'tue')")
    return made


def rows(found):
    return sorted((found.collect() if isinstance(found, pl.LazyFrame) else found).rows(), key=repr)


def test_use_holds_from_call_to_call_and_in_no_other_session(cat):
    cat.sql("USE shop")
    assert rows(cat.sql("SELECT id FROM orders")) == [(1,), (2,)]
    other = cat.session()
    with pytest.raises(lk.TableNotFound, match="USE names another"):
        other.sql("SELECT id FROM orders")
    other.sql("USE shop; CREATE TEMPORARY VIEW late AS SELECT id FROM orders WHERE id > 1")
    assert rows(other.sql("SELECT id FROM late")) == [(2,)]
    with pytest.raises(lk.NotFound):
        cat.sql("SELECT id FROM late")


def test_create_catalog_and_use_catalog_hold_from_call_to_call(cat, tmp_path):
    cat.sql(f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/other')")
    cat.sql("USE CATALOG c")
    cat.sql("CREATE DATABASE lab")
    assert lk.connect(tmp_path / "other").databases() == ["lab"]
