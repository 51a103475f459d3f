"""What the reference makes of definitions, lakekit makes of them: the same schema files, byte for byte but for the time, and the same refusals in its words."""

from __future__ import annotations

import json
import warnings

import pytest

from lakekit.ddl import apply_changes, schema_writer as schemas
from lakekit.ddl.table_definition import check_default
from lakekit.errors import LakekitError, SchemaMismatch
from lakekit.metadata.table_context import TableLocation, open_context
from lakekit.model import json_codec
from lakekit.model.table_paths import TablePaths
from lakekit.model.table_schema import TableSchema
from lakekit.storage.memory import MemoryStorage
from lakekit.types import parse
from spec_tests.golden.definition_answers import recorded
from spec_tests.golden.definitions import CASES, SNAPSHOT, TEXTS, TYPES
from spec_tests.longer import some

ANSWERS, TAKEN = recorded()
OTHER_WORDS = (
    "For input string",  # what Java's parsers say
    "Could not parse value for enum",
    "Unrecognized option for boolean",
    "Could not find any factory for identifier 'pq'",
    "begin 1, end 0",
    "Field name not found",
    "Reference field name not found",
    "Data evolution config",  # lakekit has no data evolution at all
)
"""Beginnings of messages that lakekit says in words of its own."""
DEFAULTS = {("TIME(0)", "-1"), ("TIME(3)", "-1"), ("ARRAY<INT>", "[1]"), ("MAP<INT, INT>", "null")}
"""Defaults that the reference takes and lakekit does not: times before midnight, and values with parts."""


def answers(case):
    """What lakekit answers: schemas and refusals."""
    storage = MemoryStorage()
    ground = TableLocation(name="shop.t", storage=storage, paths=TablePaths(root="/t"))
    try:
        keys = {"primary_keys": case.keys, "partition_keys": case.parts}
        found = [schemas.create_table_schema(ground, case.columns(), **keys, options=case.options, comment=case.comment)]
    except LakekitError as refused:
        return [refused]
    if case.snapshot:
        storage.put("/t/snapshot/snapshot-1", SNAPSHOT.encode())
    for step in case.steps:
        try:
            found.append(schemas.alter_schema(open_context("/t", storage=storage), step))
        except LakekitError as refused:
            found.append(refused)
        else:
            assert TableSchema.from_json(storage.read(f"/t/schema/schema-{found[-1].id}")) == found[-1]
    return found


def difference(wanted, found):
    """In a word, as `Case.differs` says it."""
    if "error" in wanted:
        return "" if isinstance(found, LakekitError) else "takes"
    if isinstance(found, LakekitError):
        return "refuses"
    told = wanted | {"timeMillis": found.time_millis}
    if told != json.loads(found.to_json()):
        return "else"
    told["options"] = {key: told["options"][key] for key in found.options}  # the reference's order follows hashes
    order = ("version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis")
    assert json_codec.format_object({name: told[name] for name in order if name in told}) == found.to_json()
    return ""


@pytest.mark.parametrize("name", some(CASES, 3))
def test_definition(name):
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the reference refuses later; test_create has them
        found = answers(case)
    assert len(found) == len(ANSWERS[name])
    assert {at: difference(*pair) for at, pair in enumerate(zip(ANSWERS[name], found, strict=True)) if difference(*pair)} == {
        at: said.partition(":")[0] for at, said in case.differs.items()
    }
    for wanted, mine in zip(ANSWERS[name], found, strict=True):
        if "error" in wanted and isinstance(mine, LakekitError) and not wanted["message"].startswith(OTHER_WORDS):
            first = " ".join(wanted["message"].split()[:5]).rstrip(".:,")
            assert first in mine.message


def test_every_case_was_asked():
    assert list(ANSWERS) == list(CASES)
    assert sum(len(found) for found in ANSWERS.values()) > 550


@pytest.mark.parametrize("disabled", [True, False])
def test_casts(disabled):
    for held in TYPES:
        signs = "".join("+" if apply_changes.is_cast_allowed(parse(held), parse(want), explicit=not disabled) else "-" for want in TYPES)
        assert signs == TAKEN[f"cast {held} {str(disabled).lower()}"], held


def takes(t, text):
    try:
        check_default(t, text, "c")
    except SchemaMismatch:
        return False
    return True


@pytest.mark.long
def test_defaults():
    for held in TYPES:
        wanted = TAKEN[f"default {held}"]
        signs = "".join("+" if takes(parse(held), text) else "-" for text in TEXTS)
        assert signs == "".join("-" if (held, text) in DEFAULTS else sign for sign, text in zip(wanted, TEXTS, strict=True)), held
