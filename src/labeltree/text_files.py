"""Text as people save it: packed by gzip, bzip2, xz or Zstandard, in UTF-8, UTF-16 or a Windows code page."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from labeltree.links import check_regular

__all__ = [
    "PACKED",
    "DecodedText",
    "decode_text",
    "find_encoding",
    "is_utf8",
    "open_unpacked",
    "read_unpacked",
    "split_packed",
    "unpacked_chunks",
]

PACKED = (".gz", ".bz2", ".xz", ".zst")
"""The suffixes of files that are unpacked while they are read."""
_MOST = 2 << 30  # unpacked bytes that are read at once
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 27
_MOST_PACKED = 250  # tables and ontologies are packed to a tenth
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HIGH = re.compile(rb"[\x80-\xff]+")
_CONTROLS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # what Windows-1252 leaves undefined
_RUNS = {1: 0.5, 2: 0.1}  # at most so much of the accented letters of a text stands in longer runs than that


class Encoding(NamedTuple):
    """The encoding of a text by a name that Python knows, and whether this is a guess."""

    encoding: str
    is_guess: bool


class DecodedText(NamedTuple):
    """A text, the encoding it was in, and whether this is a guess that a person should confirm."""

    text: str
    encoding: str
    is_guess: bool


def split_packed(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The suffix of a file without that of its packing, and the latter: `.csv` and `.gz` of `a.csv.gz`."""
    path = Path(path)
    last = path.suffix.casefold()
    if last in PACKED:
        return Path(path.stem).suffix.casefold(), last
    return last, ""


def open_unpacked(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file to be read, unpacked if its suffix is one of `PACKED`.

    Raises:
        OSError: If it cannot be opened, or is a pipe, socket or device.
    """
    check_regular(Path(path))
    packing = split_packed(path)[1]
    if packing == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if packing == ".bz2":
        return bz2.open(path, "rb")
    if packing == ".xz":
        return lzma.open(path, "rb")
    if packing == ".zst":
        import pyarrow as pa

        return cast(IO[bytes], pa.input_stream(str(path), compression="zstd"))
    return Path(path).open("rb")


def read_unpacked(path: str | os.PathLike[str], most: int = _MOST) -> bytes:
    """All bytes of a file, unpacked.

    Raises:
        OSError: If it cannot be read.
        ValueError: If its packing is damaged, or it holds more than `most` bytes or a line of more than 128
            MB; the message is the reason.
    """
    data, line = bytearray(), 0
    for chunk in unpacked_chunks(path, most):
        last = chunk.rfind(b"\n")
        line = line + len(chunk) if last < 0 else len(chunk) - last - 1
        if line > _LONGEST_LINE:
            raise ValueError(f"line {data.count(10) + 1} is longer than {_LONGEST_LINE:,} bytes")
        data += chunk
    return bytes(data)


def unpacked_chunks(path: str | os.PathLike[str], most: int = 2 * _MOST) -> Iterator[bytes]:
    """The bytes of a file, unpacked, piece by piece.

    Args:
        path: The file.
        most: Bytes that it may hold.

    Raises:
        OSError: If it cannot be read.
        ValueError: If its packing is damaged, or it holds more; the message is the reason.
    """
    packing = split_packed(path)[1]
    given = 0
    plausible = max(64 << 20, _MOST_PACKED * os.path.getsize(path)) if packing else most
    try:
        with open_unpacked(path) as file:
            while data := file.read(_CHUNK):
                given += len(data)
                if given > plausible:
                    raise ValueError(f"unpacked, it is more than {_MOST_PACKED} times as large")
                if given > most:
                    raise ValueError(f"it holds more than {most:,} bytes{', unpacked' if packing else ''}")
                yield bytes(data)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ValueError(f"its packing ({packing}) is damaged: {error}") from error
    except OSError as error:
        if packing and error.errno is None:
            raise ValueError(f"its packing ({packing}) is damaged: {error}") from error
        raise


def decode_text(data: bytes, encoding: str | None = None) -> DecodedText:
    """Decode a text by its byte order mark, as UTF-8, UTF-16 without a mark, or else Windows-1252.

    Windows-1252, which holds Latin-1's letters, is a guess: any bytes could be it. Bytes above 127 that
    mostly stand in runs, as in Cyrillic or Chinese code pages, are refused.

    Args:
        data: All bytes of the text, or its first ones.
        encoding: What it is in, by a name that Python knows; None to find it.

    Raises:
        ValueError: If the encoding is unknown, or is not that of the text; the message is the reason.
    """
    if encoding is not None:
        try:
            text = data.decode(encoding)
        except LookupError:
            raise ValueError(
                f"the encoding {encoding!r} is unknown; utf-8, utf-16 and cp1252 are common"
            ) from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{_line(data, error.start)} is not {encoding} ({error.reason})") from None
        return DecodedText(text.removeprefix("\ufeff"), encoding, is_guess=False)
    known = find_encoding(data, cut=False)
    try:
        return DecodedText(data.decode(known.encoding), known.encoding.removesuffix("-sig"), known.is_guess)
    except UnicodeDecodeError as error:
        raise ValueError(f"{_line(data, error.start)} is not {known.encoding.removesuffix('-sig')}") from None


def find_encoding(start: bytes, *, cut: bool) -> Encoding:
    """The encoding of a text by its first bytes; see `decode_text`.

    Args:
        start: The bytes.
        cut: Whether more follow, so that they may end within a letter.

    Raises:
        ValueError: If that cannot be told; the message is the reason.
    """
    mark = next((name for mark, name in _MARKS if start.startswith(mark)), None) or _utf16_without_mark(start)
    if mark is not None:
        return Encoding(mark, is_guess=False)
    if _first_bad(start, cut=cut) is None:
        return Encoding("utf-8", is_guess=False)
    if not _is_western(start):
        at = _first_bad(start, cut=cut) or 0
        raise ValueError(
            f"{_line(start, at)} is not UTF-8 (byte {start[at]:#04x}), nor does the text look like "
            "Windows-1252; save it as UTF-8, or say its encoding"
        )
    return Encoding("cp1252", is_guess=True)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, which may end within a letter."""
    return _first_bad(data, cut=True) is None


def _first_bad(data: bytes, *, cut: bool) -> int | None:
    """Place of the first byte that is no UTF-8; None if all are."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError as error:
        return error.start
    return None


def _utf16_without_mark(data: bytes) -> str | None:
    """UTF-16 of mostly Latin letters has a zero in every second byte; other text has none."""
    start = data[:4096]
    if len(start) < 4 or b"\0" not in start:
        return None
    even, odd = start[::2], start[1::2]
    if odd.count(0) > 0.7 * len(odd) and not even.count(0):
        return "utf-16-le"
    if even.count(0) > 0.7 * len(even) and not odd.count(0):
        return "utf-16-be"
    return None


def _is_western(data: bytes) -> bool:
    """Whether bytes above 127 are mostly single letters among others, as accented ones are."""
    if b"\0" in data or _CONTROLS.search(data):
        return False
    runs = [len(run.group()) for run in _HIGH.finditer(data)]
    return all(
        sum(run for run in runs if run > length) <= share * sum(runs) for length, share in _RUNS.items()
    )


def _line(data: bytes, at: int) -> str:
    number = data.count(b"\n", 0, at) + 1
    return f"line {number}"
