"""Golden manifest lists, manifests and index manifests: their records as they were recorded, and written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.codec import avro_columns, avro_container
from lakekit.model import entry_files, index_manifest, manifests
from lakekit.model.entry_files import ManifestBytes
from lakekit.testing.golden.comparison import check_equal

if TYPE_CHECKING:
    from collections.abc import Callable


def read_container(data: bytes) -> tuple[dict[str, bytes], list[tuple[int, bytes]]]:
    """What an Avro file says, whatever its compressor made of it."""
    container = avro_container.open_container(data)
    return dict(container.metadata), [(block.count, block.data) for block in container.blocks]


def decode_recorded(value: Any) -> Any:
    """A recorded value, serialized rows as their bytes."""
    match value:
        case {"hex": text, "values": _}:
            return bytes.fromhex(text)
        case dict():
            return {name: decode_recorded(part) for name, part in value.items()}
        case list():
            return [decode_recorded(part) for part in value]
    return value


def select_fields(row: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record that another one has; a field that is not there is null."""
    return {name: row.get(name) for name in like}


def _check_rewrite(said: dict[str, Any], data: bytes, encode: Callable[..., bytes]) -> None:
    """Writing what the reference wrote gives the same header and records, and where nothing compresses the same bytes."""
    if avro_container.is_avro(data) and said["origin"] == "reference":
        codec = avro_container.open_container(data).codec
        check_equal("header and records written again", read_container(encode(codec=codec)), read_container(data))
        if codec == "null":
            check_equal("the file written again", encode(codec=codec, sync=data[-16:]).hex(), data.hex())


def lists(said: dict[str, Any], data: bytes) -> None:
    """Format manifest_list: every member of every manifest."""
    found = manifests.decode_list(data, path=said["case"])
    wanted = [decode_recorded(row) for row in said["manifests"]]
    check_equal("how many manifests", len(found), len(wanted))
    for number, (file, row) in enumerate(zip(found, wanted, strict=True)):
        added = {extra.name: extra.value for extra in file.extra}
        check_equal(f"manifest {number}", select_fields(manifests.record(file) | added, row), row)
    check_equal("the list written again", manifests.decode_list(manifests.encode_list(found)), found)
    _check_rewrite(said, data, lambda **how: manifests.encode_list(found, **how))


def entries(said: dict[str, Any], data: bytes) -> None:
    """Format manifest: every member of every entry, those of newer writers too."""
    found = entry_files.decode([ManifestBytes(said["case"], data)])[0]
    records = avro_columns.read_records(avro_container.open_container(entry_files.encode(found)))
    wanted = [decode_recorded(row) for row in said.get("entries", [said.get("first_entry")])]
    check_equal("how many entries", len(records), said.get("entry_count", len(wanted)))
    for number, (record, row) in enumerate(zip(records, wanted, strict=False)):
        index = row["_FILE"]["_EMBEDDED_FILE_INDEX"]
        row["_FILE"]["_EMBEDDED_FILE_INDEX"] = None if index is None else bytes.fromhex(index)
        if said["container"] == "orc" and row["_FILE"]["_CREATION_TIME"] == -1:
            row["_FILE"]["_CREATION_TIME"] = 999  # ORC holds no fraction in the second before 1970
        record["_FILE"] = select_fields(record["_FILE"], row["_FILE"])
        future = record["_FILE"].get("_FROM_THE_FUTURE")
        if future is not None:  # a map of doubles, which recordings write as text
            record["_FILE"]["_FROM_THE_FUTURE"] = [[key, None if one is None else str(one)] for key, one in future]
        check_equal(f"entry {number}", select_fields(record, row), row)
    _check_rewrite(said, data, lambda **how: entry_files.encode(found, **how))


def index_entries(said: dict[str, Any], data: bytes) -> None:
    """Format index_manifest: every member of every entry."""
    found = index_manifest.decode(data, path=said["case"])
    check_equal("how many entries", len(found), len(said["entries"]))
    for number, (entry, wanted) in enumerate(zip(found, map(decode_recorded, said["entries"]), strict=True)):
        row = index_manifest.record(entry)
        if row["_GLOBAL_INDEX"] is not None:
            covers = {name: value.hex() if isinstance(value, bytes) else value for name, value in row["_GLOBAL_INDEX"].items()}
            row["_GLOBAL_INDEX"] = select_fields(covers, wanted["_GLOBAL_INDEX"])
        ranges = wanted["_DELETIONS_VECTORS_RANGES"]
        wanted["_DELETIONS_VECTORS_RANGES"] = None if ranges is None else [one for one in ranges if one is not None]
        check_equal(f"entry {number}", select_fields(row, wanted), wanted)
    check_equal("the file written again", index_manifest.decode(index_manifest.encode(found)), found)
    _check_rewrite(said, data, lambda **how: index_manifest.encode(found, **how))
