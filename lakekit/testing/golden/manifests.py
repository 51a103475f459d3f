"""Golden manifest lists, manifests and index manifests: their records as recorded, and written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.codec import avro_columns, avro_container
from lakekit.model import entry_files, index_manifest, manifests
from lakekit.model.entry_files import ManifestBytes
from lakekit.testing.golden.comparison import check_equal

if TYPE_CHECKING:
    from collections.abc import Callable


def read_container(data: bytes) -> tuple[dict[str, bytes], list[tuple[int, bytes]]]:
    """Return metadata and blocks of an Avro file, independent of its compressor."""
    container = avro_container.open_container(data)
    return dict(container.metadata), [(block.count, block.data) for block in container.blocks]


def decode_recorded(value: Any) -> Any:
    """Return a recorded value, with serialized rows as their bytes."""
    match value:
        case {"hex": text, "values": _}:
            return bytes.fromhex(text)
        case dict():
            return {name: decode_recorded(part) for name, part in value.items()}
        case list():
            return [decode_recorded(part) for part in value]
    return value


def select_fields(row: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that another one has; a missing field is null."""
    return {name: row.get(name) for name in like}


def _check_rewrite(facts: dict[str, Any], data: bytes, encode: Callable[..., bytes]) -> None:
    """Check that writing the reference's records gives the same header and records.

    Where nothing compresses the bytes must be the same.
    """
    if avro_container.is_avro(data) and facts["origin"] == "reference":
        codec = avro_container.open_container(data).codec
        check_equal("header and records written again", read_container(encode(codec=codec)), read_container(data))
        if codec == "null":
            check_equal("the file written again", encode(codec=codec, sync=data[-16:]).hex(), data.hex())


def lists(facts: dict[str, Any], data: bytes) -> None:
    """Format manifest_list: every member of every manifest."""
    decoded = manifests.decode_list(data, path=facts["case"])
    wanted = [decode_recorded(row) for row in facts["manifests"]]
    check_equal("how many manifests", len(decoded), len(wanted))
    for number, (file, row) in enumerate(zip(decoded, wanted, strict=True)):
        added = {extra.name: extra.value for extra in file.extra}
        check_equal(f"manifest {number}", select_fields(manifests.record(file) | added, row), row)
    check_equal("the list written again", manifests.decode_list(manifests.encode_list(decoded)), decoded)
    _check_rewrite(facts, data, lambda **how: manifests.encode_list(decoded, **how))


def entries(facts: dict[str, Any], data: bytes) -> None:
    """Format manifest: every member of every entry, those of newer writers too."""
    decoded = entry_files.decode([ManifestBytes(facts["case"], data)])[0]
    records = avro_columns.read_records(avro_container.open_container(entry_files.encode(decoded)))
    wanted = [decode_recorded(row) for row in facts.get("entries", [facts.get("first_entry")])]
    check_equal("how many entries", len(records), facts.get("entry_count", len(wanted)))
    for number, (record, row) in enumerate(zip(records, wanted, strict=False)):
        index = row["_FILE"]["_EMBEDDED_FILE_INDEX"]
        row["_FILE"]["_EMBEDDED_FILE_INDEX"] = None if index is None else bytes.fromhex(index)
        if facts["container"] == "orc" and row["_FILE"]["_CREATION_TIME"] == -1:
            row["_FILE"]["_CREATION_TIME"] = 999  # ORC holds no fraction in the second before 1970
        record["_FILE"] = select_fields(record["_FILE"], row["_FILE"])
        future = record["_FILE"].get("_FROM_THE_FUTURE")
        if future is not None:  # a map of doubles, which recordings write as text
            record["_FILE"]["_FROM_THE_FUTURE"] = [[key, None if item is None else str(item)] for key, item in future]
        check_equal(f"entry {number}", select_fields(record, row), row)
    _check_rewrite(facts, data, lambda **how: entry_files.encode(decoded, **how))


def index_entries(facts: dict[str, Any], data: bytes) -> None:
    """Format index_manifest: every member of every entry."""
    decoded = index_manifest.decode(data, path=facts["case"])
    check_equal("how many entries", len(decoded), len(facts["entries"]))
    for number, (entry, wanted) in enumerate(zip(decoded, map(decode_recorded, facts["entries"]), strict=True)):
        row = index_manifest.record(entry)
        if row["_GLOBAL_INDEX"] is not None:
            covers = {
                name: value.hex() if isinstance(value, bytes) else value for name, value in row["_GLOBAL_INDEX"].items()
            }
            row["_GLOBAL_INDEX"] = select_fields(covers, wanted["_GLOBAL_INDEX"])
        ranges = wanted["_DELETIONS_VECTORS_RANGES"]
        wanted["_DELETIONS_VECTORS_RANGES"] = None if ranges is None else [item for item in ranges if item is not None]
        check_equal(f"entry {number}", select_fields(row, wanted), wanted)
    check_equal("the file written again", index_manifest.decode(index_manifest.encode(decoded)), decoded)
    _check_rewrite(facts, data, lambda **how: index_manifest.encode(decoded, **how))
