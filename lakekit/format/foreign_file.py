"""What a data file that somebody else wrote holds, as a table of Paimon would say it: columns, rows, and what its footer tells of them.

    format_of(b"PAR1…")                 "parquet"          by the first bytes: files of Hive have names without an ending
    held("parquet", path, read, size)   Held(fields=(k BIGINT, …), row_count=3, told={"k": …})

Columns are found by name, and are all nullable. A type that Paimon has not, or that a reader of either engine would not find where its column says, is refused
by the names of file and column: nothing is written anew here. Source: `ParquetSchemaConverter`, `OrcTypeUtil`, `AvroSchemaConverter`, the other way round,
and what engine 1.4.2 reads of such files.
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
"""How files begin."""
_READERS = {"parquet": parquet_held.read_foreign_schema, "orc": orc_held.read_foreign_schema, "avro": avro_held.read_foreign_schema}
_FOOTER_FAILURES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What comes of a footer whose numbers and lists are not what they should be."""


def format_of(head: bytes) -> str | None:
    """The format of a file that begins so; None where it is no Parquet, ORC or Avro."""
    return next((name for magic, name in MAGICS.items() if head.startswith(magic)), None)


def read_foreign_schema(format_name: str, path: str, read: Callable[[int, int | None], bytes], size_bytes: int) -> ForeignFileSchema:
    """What a file holds; `read(offset, length)` gives its bytes.

    Raises `Corrupt` for a file that is damaged, `SchemaMismatch` for a column that no table can take as it lies, `Unsupported` for compression and encodings
    that the released engine or Polars does not read.
    """
    try:
        found = _READERS[format_name](path, read, size_bytes)
    except Corrupt as wrong:
        raise wrong.at(path) from None
    except LakekitError:
        raise
    except external_reader.FOREIGN_FAILURES as wrong:
        raise external_reader.to_corrupt(path, wrong, format_name) from wrong
    except _FOOTER_FAILURES as wrong:
        raise Corrupt(f"{path}: its {format_name} footer makes no sense: {wrong}", path=path, field="footer") from wrong
    if (twice := first_duplicate(field.name for field in found.fields)) is not None:
        raise SchemaMismatch(f"{path} has two columns {twice}; columns are found by name. Rewrite it with other names", column=twice)
    return found
