"""Compressed text files, as Hadoop's codecs make them, and their text split into lines.

    .gz .bz2        the formats of gzip and bzip2, several members after another too
    .deflate        zlib
    .zst            Zstandard frames
    .snappy .lz4    blocks: [length of the text: 4 bytes][length of a chunk: 4 bytes][chunk] …, both big-endian;
                    chunks until the text of that length is complete

If the option names \\n, \\r or \\r\\n as line end, a line ends at any of the three; otherwise a line ends exactly at
the text of the option. The last line needs no end. A byte order mark at the beginning is skipped, bytes that are not
UTF-8 become U+FFFD.

Source: `HadoopCompressionType`, Hadoop's `BlockCompressorStream`; `StandardLineReader`, `CustomLineReader`.
"""

from __future__ import annotations

import bz2
import io
import zlib
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
import pyarrow as pa

from lakekit.errors import Corrupt, InvalidOption, LimitExceeded
from lakekit.model.data_file import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from lakekit.storage.protocol import Storage


READ_PIECE_BYTES = 8 << 20
"""The most bytes of one decompressed piece of a gzip, zlib, bzip2 or Zstandard file."""
_BLOCK_BYTES = 256 << 10
_MAX_BLOCK_BYTES = 64 << 20
_BLOCK_CODECS = {"snappy": "snappy", "lz4": "lz4_raw"}
_GZIP_WINDOW_BITS = 31
"""Window bits that make zlib read and write gzip's header."""


def normalize_compression(compression: str) -> str:
    """Return the name of a compression in lower case, as a key of `EXTENSIONS`.

    Raises:
        InvalidOption: the compression is unknown; the message lists the known ones.
    """
    name = compression.strip().lower()
    if name not in EXTENSIONS:
        raise InvalidOption(
            f"text files are not compressed by {compression[:100]!r}; allowed: {', '.join(EXTENSIONS)}",
            key="format-table.file.compression",
            value=compression,
        )
    return name


# ---- out -------------------------------------------------------------------------------------------------------------


class Sink(Protocol):
    """A writer of text."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Write what is buffered; the underlying file stays open."""


def open_compressed(file: BinaryIO, compression: str) -> Sink:
    """Return a sink that compresses into a file. Raises `InvalidOption` for an unknown compression."""
    match normalize_compression(compression):
        case "none":
            return _CompressStream(file, _PlainSink())
        case "gzip":
            return _CompressStream(file, zlib.compressobj(wbits=_GZIP_WINDOW_BITS))
        case "deflate":
            return _CompressStream(file, zlib.compressobj())
        case "bzip2":
            return _CompressStream(file, bz2.BZ2Compressor())
        case "zstd":
            return _Zstandard(file)
        case blocked:
            return _BlockStream(file, pa.Codec(_BLOCK_CODECS[blocked]))


class _PlainSink:
    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _CompressStream:
    def __init__(self, file: BinaryIO, compressor: Any) -> None:
        self.file, self.compressor = file, compressor

    def write(self, data: bytes) -> None:
        self.file.write(self.compressor.compress(data))

    def close(self) -> None:
        self.file.write(self.compressor.flush())


class _Zstandard:
    def __init__(self, file: BinaryIO) -> None:
        self.stream = pa.CompressedOutputStream(pa.PythonFile(_UnclosedFile(file), mode="w"), "zstd")

    def write(self, data: bytes) -> None:
        self.stream.write(data)

    def close(self) -> None:
        self.stream.close()


class _UnclosedFile(io.RawIOBase):
    """A file that stays open when Arrow closes it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.file.write(data)


class _BlockStream:
    def __init__(self, file: BinaryIO, codec: pa.Codec) -> None:
        self.file, self.codec, self.pending = file, codec, bytearray()

    def write(self, data: bytes) -> None:
        self.pending += data
        while len(self.pending) >= _BLOCK_BYTES:
            self._block(bytes(self.pending[:_BLOCK_BYTES]))
            del self.pending[:_BLOCK_BYTES]

    def close(self) -> None:
        if self.pending:
            self._block(bytes(self.pending))

    def _block(self, data: bytes) -> None:
        chunk = self.codec.compress(data, asbytes=True)
        self.file.write(len(data).to_bytes(4, "big") + len(chunk).to_bytes(4, "big") + chunk)


# ---- in --------------------------------------------------------------------------------------------------------------


def read_decompressed(storage: Storage, path: str, size_bytes: int) -> Iterator[bytes]:
    """Yield the decompressed text of a file in pieces of some megabytes.

    Raises:
        Corrupt: the bytes are not what the codec of the file's extension writes; carries the path.
    """
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    raw = _read_raw(storage, path, size_bytes)
    try:
        match ending:
            case "gz":
                yield from _inflate_members(raw, lambda: zlib.decompressobj(wbits=_GZIP_WINDOW_BITS))
            case "deflate":
                yield from _inflate_members(raw, zlib.decompressobj)
            case "bz2":
                yield from _inflate_members(raw, bz2.BZ2Decompressor)
            case "zst":
                yield from _inflate_zstandard(storage.read(path))
            case "snappy" | "lz4":
                yield from _read_blocks(storage.read(path), pa.Codec(_BLOCK_CODECS[ending]))
            case _:
                yield from raw
    except (zlib.error, EOFError, OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, Corrupt):
            raise error.at(path) from None
        if hasattr(error, "path"):
            raise  # the storage's own
        raise Corrupt(
            f"{path}: its {ending} data cannot be decompressed: {str(error)[:200]}", path=path, field="compression"
        ) from error


def _read_raw(storage: Storage, path: str, size_bytes: int) -> Iterator[bytes]:
    for start in range(0, size_bytes, READ_PIECE_BYTES):
        yield storage.read(path, start, min(READ_PIECE_BYTES, size_bytes - start))


def _inflate_members(raw: Iterator[bytes], begin: Any) -> Iterator[bytes]:
    """Yield the decompressed bytes of one compressed stream after another, in pieces of at most `READ_PIECE_BYTES`."""
    stream, fed = begin(), False
    for data in raw:
        unread = data
        while unread or _has_pending_output(stream):
            if stream.eof:
                stream, fed = begin(), False
            out = stream.decompress(unread, READ_PIECE_BYTES)
            fed = fed or bool(unread)
            unread = stream.unused_data if stream.eof else getattr(stream, "unconsumed_tail", b"")
            if out:
                yield out
    if fed and not stream.eof:
        msg = "the file ends before its compressed data does"
        raise EOFError(msg)


def _has_pending_output(stream: Any) -> bool:
    """Return whether bzip2 has more text to return before it needs input; zlib returns unread input instead."""
    return isinstance(stream, bz2.BZ2Decompressor) and not stream.eof and not stream.needs_input


def _inflate_zstandard(data: bytes) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(READ_PIECE_BYTES):
            yield piece


def _read_blocks(data: bytes, codec: pa.Codec) -> Iterator[bytes]:
    offset = 0
    while offset < len(data):
        remaining, offset = _read_length(data, offset), offset + 4
        while remaining:
            size, offset = _read_length(data, offset), offset + 4
            chunk = data[offset : offset + size]
            if not size or len(chunk) < size:
                raise Corrupt("a block ends before its length does", field="compression")
            if codec.name == "snappy":
                text_length, shift = 0, 0  # a chunk of snappy begins with its own length, seven bits a byte
                for byte in chunk[:5]:
                    text_length |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
            else:
                text_length = remaining
            if text_length > remaining or not text_length:
                raise Corrupt("a chunk is longer than its block", field="compression")
            yield codec.decompress(chunk, text_length, asbytes=True)
            offset, remaining = offset + size, remaining - text_length


def _read_length(data: bytes, offset: int) -> int:
    length = int.from_bytes(data[offset : offset + 4], "big")
    if offset + 4 > len(data) or length > _MAX_BLOCK_BYTES:
        raise Corrupt(f"a block of {length} bytes", field="compression")
    return length


# ---- split ------------------------------------------------------------


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 32 << 20
"""The most bytes of a line; decoding a line needs several times as much memory.

A compressed file of some kilobytes may hold a line of gigabytes.
"""


def line_batches(pieces: Iterable[bytes], line_end: str, *, any_line_end: bool, path: str) -> Iterator[pl.Series]:
    """Yield the lines of a text that comes in pieces, as one series for each piece with a line end.

    `any_line_end`: lines end at \\n, \\r or \\r\\n, and `line_end` is ignored. `path`: for messages.

    Raises:
        LimitExceeded: a line is longer than 32 MiB.
    """
    end = b"\n" if any_line_end else line_end.encode()
    unfinished, at_start = b"", any_line_end
    for piece in pieces:
        data = unfinished + piece
        if at_start and len(data) >= len(_BYTE_ORDER_MARK):
            data, at_start = data.removeprefix(_BYTE_ORDER_MARK), False
        carried = b""
        if any_line_end and b"\r" in data:
            if data.endswith(b"\r"):  # the line feed that belongs to it may come next
                data, carried = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = data.rfind(end)
        if cut >= 0:
            yield _split_lines(data[:cut], end)
            data = data[cut + len(end) :]
        unfinished = data + carried
        if len(unfinished) > MAX_LINE_BYTES:
            raise LimitExceeded(f"{path}: a line is longer than {MAX_LINE_BYTES} bytes", path=path, field="line")
    if unfinished:
        yield _split_lines(unfinished.removesuffix(b"\r") if any_line_end else unfinished, end)


def _split_lines(data: bytes, end: bytes) -> pl.Series:
    """Return the lines of a text whose last line has no end."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        data = text.encode()
    if end == b"\n":
        return pl.read_lines(io.BytesIO(data + b"\n")).to_series().alias("line")
    return pl.Series("line", [text]).str.split(end.decode()).explode().alias("line")
