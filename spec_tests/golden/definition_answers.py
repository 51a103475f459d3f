"""Definitions as questions to the judge, and the answers as they are kept.

wire(case)      a question
facts(answer)   the facts of a schema file without its time, or {"error": …, "message": …}
recorded()      the answers of `definitions_1_4_2.json`
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakekit.ddl import schema_changes
from lakekit.types import type_to_json
from spec_tests.golden.definitions import SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import lakekit as lk
    from spec_tests.golden.definitions import Case


def wire(case: Case) -> dict[str, Any]:
    """The question that the judge understands."""
    ids = count(1000)
    return {
        "fields": [[one.name, _type(one.type, ids), one.comment, one.default] for one in case.columns()],
        "primary_keys": list(case.keys),
        "partition_keys": list(case.parts),
        "options": dict(case.options),
        "comment": case.comment,
        "snapshot": SNAPSHOT if case.snapshot else None,
        "steps": [[told for change in step for told in _change(change, ids)] for step in case.steps],
    }


def _change(change: Any, ids: Iterator[int]) -> list[list[Any]]:
    match change:
        case schema_changes.AddColumn():
            place = [None, None] if change.position is None else [change.position.relation, change.position.column]
            told = [["add_column", change.path, _type(change.type, ids), *place, change.comment]]
            return told if change.default is None else [*told, ["update_default", change.path, change.default]]
        case schema_changes.RenameColumn():
            return [["rename_column", change.path, change.new_name]]
        case schema_changes.DropColumn():
            return [["drop_column", change.path]]
        case schema_changes.UpdateType():
            return [["update_type", change.path, _type(change.type, ids), change.type.nullable]]
        case schema_changes.UpdateNullability():
            return [["update_nullability", change.path, change.nullable]]
        case schema_changes.UpdateComment():
            return [["update_comment", change.path, change.comment]]
        case schema_changes.UpdateDefault():
            return [["update_default", change.path, change.default]]
        case schema_changes.MoveColumn():
            return [["move_column", [change.column], change.position.relation, change.position.column]]
        case schema_changes.SetOption():
            return [["set_option", change.key, change.value]]
        case schema_changes.ResetOption():
            return [["reset_option", change.key]]
    return [["set_comment", change.comment]]


def _type(t: lk.DataType, ids: Iterator[int]) -> Any:
    def numbered(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: next(ids) if name == "id" else numbered(part) for name, part in node.items()}
        return [numbered(part) for part in node] if isinstance(node, list) else node

    return numbered(type_to_json(t))


# ---- and their answers -----------------------------------------------------------------------------------------------------------------------------

RECORDED = Path(__file__).parent / "definitions_1_4_2.json"
_UNSAID = {"version": 3, "partitionKeys": [], "primaryKeys": [], "options": {}}
_MESSAGE = 110


def facts(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of the judge without what differs from run to run."""
    if "error" in answer:
        return {"error": answer["error"], "message": " ".join(answer["message"].split())[:_MESSAGE]}
    return {name: value for name, value in json.loads(answer["schema"]).items() if name != "timeMillis"}


def packed(answers: Mapping[str, Sequence[dict[str, Any]]], taken: Mapping[str, str]) -> str:
    """The recorded file: every list of fields once, and nothing that goes without saying; `taken` has a sign for each step of a matrix, + or -."""
    lists: list[str] = []

    def short(answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            return answer
        text = json.dumps(answer["fields"], ensure_ascii=False, separators=(",", ":"))
        if text not in lists:
            lists.append(text)
        return {name: value for name, value in answer.items() if name != "fields" and _UNSAID.get(name) != value} | {"fields": lists.index(text)}

    told = {name: [short(one) for one in found] for name, found in answers.items()}
    lines = [f'"{name}":{json.dumps(found, ensure_ascii=False, separators=(",", ":"))}' for name, found in told.items()]
    signs = [f'"{name}":"{found}"' for name, found in taken.items()]
    return '{"fields":[\n' + ",\n".join(lists) + '\n],"answers":{\n' + ",\n".join(lines) + '\n},"matrices":{\n' + ",\n".join(signs) + "\n}}\n"


def _unpacked(found: Iterable[dict[str, Any]], lists: Sequence[Any]) -> list[dict[str, Any]]:
    return [one if "error" in one else _UNSAID | one | {"fields": lists[one["fields"]]} for one in found]


def recorded() -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """What `packed` put down."""
    read = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {name: _unpacked(found, read["fields"]) for name, found in read["answers"].items()}, read["matrices"]
