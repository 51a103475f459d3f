"""Bucket pruning: which buckets can hold the keys of a condition, by the bucket function or by the hash index.

Only conditions that name every bucket-key column with `=` or `in` select buckets (ENGINE 6.4, `BucketSelectConverter`).
Hash indexes are those of dynamic buckets.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakekit.codec import hash_index
from lakekit.codec.hashing import buckets, functions_of_writers, hash_columns, is_bucket_key
from lakekit.data_file.paths import partition_path
from lakekit.metadata import schemas
from lakekit.predicate import Leaf, Predicate, conjuncts
from lakekit.read.pruning import as_scalar, list_padded
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.types import Field

MAX_COMBINATIONS = 1000
"""More combinations of key values than this select nothing: testing them costs more than it saves."""


def _named_keys(predicate: Predicate, key: Sequence[Field]) -> list[pa.Array] | None:
    """Return every combination of key values that `predicate` allows, an array for each key column.

    None if it does not name all key columns.
    """
    choices: list[list[pa.Scalar]] = []
    count = 1
    for field in key:
        values = _values(predicate, field)
        if values is None or field.type.root in ("FLOAT", "DOUBLE"):  # 0.0 equals -0.0, their hashes differ
            return None
        if field.type.root == "CHAR":
            values = [
                pa.scalar(padded, pa.string())
                for text in values
                for padded in list_padded(text.as_py(), field.type.length or 1)
            ]  # scalar: literals of a filter
        count *= len(values)
        if count > MAX_COMBINATIONS:
            return None
        choices.append(values)
    if not key:
        return None
    combined = list(product(*choices))
    # scalar: literals of a filter
    return [pa.array([row[at] for row in combined], to_arrow(field.type)) for at, field in enumerate(key)]


def _values(predicate: Predicate, field: Field) -> list[pa.Scalar] | None:
    """Return the values one column may have, from its shortest `=` or `in`.

    None if there is none, or a literal has no such value.
    """
    best: list[pa.Scalar] | None = None
    for part in conjuncts(predicate):
        if not isinstance(part, Leaf) or part.column != field.name or part.op not in ("=", "in"):
            continue
        scalars = [as_scalar(value, field.type) for value in part.literals]
        usable = [scalar for scalar in scalars if scalar is not None]
        if len(usable) == len(scalars) and (best is None or len(usable) < len(best)):
            best = usable
    return best


def in_buckets(ctx: TableContext, entries: ManifestEntries, predicate: Predicate) -> NDArray[np.bool_] | None:
    """Return which entries are in buckets that can hold rows of a condition; None if it does not select buckets.

    That is if the condition does not name the whole bucket key, no bucket is fixed, or the bucket function takes no key
    of these types; or if a column of the bucket key had another type once, as rows are in the bucket of the hash of its
    old values. Each key selects the bucket of every function that writers use (`functions_of_writers`): an entry does
    not say which writer wrote it.
    """
    total = entries.numbers("total_buckets")
    if not (total > 0).any() or not all(map(ctx.schema.has, ctx.schema.bucket_keys)):
        return None  # in a state of then a column of today's bucket key may not have been there
    fields = ctx.schema.fields_of(ctx.schema.bucket_keys)
    keys, types = _named_keys(predicate, fields), [field.type for field in fields]
    if (
        keys is None
        or not is_bucket_key(ctx.options.bucket_function_type, types)
        or not schemas.have_types_always(ctx, fields)
    ):
        return None
    mask, bucket = np.ones(len(entries), bool), entries.numbers("bucket")
    for count in np.unique(total):
        if count > 0:  # each entry by its own count; those without a fixed one stay
            functions = functions_of_writers(ctx.options.bucket_function_type)
            bucket_numbers = np.concatenate([buckets(function, keys, types, int(count)) for function in functions])
            mask &= (total != count) | np.isin(bucket, bucket_numbers)
    return mask


def in_hashed(
    ctx: TableContext, entries: ManifestEntries, predicate: Predicate, indexes: Sequence[IndexManifestEntry]
) -> NDArray[np.bool_] | None:
    """Return which entries of dynamic buckets have a key of a condition in their hash index.

    None if the condition does not name the whole key. Buckets without an index are kept. Only the indexes of the
    remaining buckets are read.
    """
    fields = ctx.schema.fields_of(ctx.schema.bucket_keys)
    keys = _named_keys(predicate, fields)
    if keys is None:
        return None
    wanted = hash_columns(keys, [field.type for field in fields])
    bucket = entries.numbers("bucket")
    encoded = entries.column("partition").dictionary_encode()
    code = encoded.indices.to_numpy()
    mask = np.ones(len(entries), bool)
    for at, partition in enumerate(encoded.dictionary.to_pylist()):  # scalar: the partitions still in question
        for index in indexes:
            inside = (code == at) & (bucket == index.bucket) if index.partition == partition else np.zeros(0, bool)
            if inside.any():
                path = ctx.layout.index(
                    index.file_name,
                    partition_path=partition_path(ctx, partition),
                    bucket=index.bucket,
                    external_path=index.external_path,
                )
                mask[inside] = bool(np.isin(wanted, hash_index.decode(ctx.storage.read(path), path=path)).any())
    return mask
