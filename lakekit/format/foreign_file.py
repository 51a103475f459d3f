"""The schema of another writer's data file in Paimon's types: columns, row count, footer statistics.

    format_of(b"PAR1…")                                "parquet"     by the first bytes: Hive's files have no extension
    read_foreign_schema("parquet", path, read, size)   ForeignFileSchema(fields=(k BIGINT, …), row_count=3, …)

Columns are found by name, and are all nullable. A type that Paimon does not have, or that a reader of either engine
would not find by its column's type, is refused with the names of file and column: nothing is rewritten here. Source:
`ParquetSchemaConverter`, `OrcTypeUtil`, `AvroSchemaConverter`, reversed, and what engine 1.4.2 reads of such files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Corrupt, LakekitError, SchemaMismatch
from lakekit.format import avro_held, external_reader, orc_held, parquet_held
from lakekit.types import first_duplicate

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.format.held import ForeignFileSchema

MAGICS = {b"PAR1": "parquet", b"PARE": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
"""The first bytes of each format."""
_READERS = {
    "parquet": parquet_held.read_foreign_schema,
    "orc": orc_held.read_foreign_schema,
    "avro": avro_held.read_foreign_schema,
}
_FOOTER_FAILURES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What is raised over a footer whose numbers and lists are wrong."""


def format_of(head: bytes) -> str | None:
    """Return the format of a file by its first bytes; None if it is no Parquet, ORC or Avro."""
    return next((name for magic, name in MAGICS.items() if head.startswith(magic)), None)


def read_foreign_schema(
    format_name: str, path: str, read: Callable[[int, int | None], bytes], size_bytes: int
) -> ForeignFileSchema:
    """Return the schema of a file; `read(offset, length)` returns its bytes.

    Raises:
        Corrupt: the file is damaged.
        SchemaMismatch: no table can adopt a column as it is stored.
        Unsupported: the released engine or Polars does not read its compression or an encoding.
    """
    try:
        schema = _READERS[format_name](path, read, size_bytes)
    except Corrupt as error:
        raise error.at(path) from None
    except LakekitError:
        raise
    except external_reader.FOREIGN_FAILURES as error:
        raise external_reader.to_corrupt(path, error, format_name) from error
    except _FOOTER_FAILURES as error:
        raise Corrupt(f"{path}: its {format_name} footer makes no sense: {error}", path=path, field="footer") from error
    if (twice := first_duplicate(field.name for field in schema.fields)) is not None:
        raise SchemaMismatch(
            f"{path} has two columns {twice}; columns are found by name. Rewrite it with other names", column=twice
        )
    return schema
