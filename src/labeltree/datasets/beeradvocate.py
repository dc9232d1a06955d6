"""BeerAdvocate: beer reviews with ratings of five aspects in half points (McAuley et al. 2012)."""

from __future__ import annotations

import functools
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.formats.reviews import TEST, TRAIN, Review, parse_rating, review_source
from labeltree.errors import DataError
from labeltree.progress import Progress, silent

__all__ = ["ASPECTS", "open_beeradvocate", "read_beers"]

NAME = "beeradvocate"
ASPECTS = ("appearance", "aroma", "palate", "taste", "overall")
STEPS = 2
"""Rating steps per point: ratings are 2 to 10, twice the points."""

_FILES = ("beeradvocate.txt.gz", "beeradvocate.txt")
_EVERY = 50_000  # reviews between two progress reports
_RATINGS = tuple(f"review/{aspect}".encode() for aspect in ASPECTS)
# A field extends to the next field: lines without a field name continue it.
_FIELD = re.compile(rb"^((?:beer|review)/\w+):(.*(?:\n(?!(?:beer|review)/\w+:).*)*)", re.MULTILINE)


def read_beers(path: Path, progress: Progress = silent) -> Iterator[Review | str]:
    """Yield the reviews of the file; for an unusable review, yield the reason instead.

    Args:
        path: `beeradvocate.txt`, packed or not: blocks of lines `beer/…: ` and `review/…: `, an empty
            line between them. Any other line continues the previous one.
        progress: Callback that reports the bytes read.

    Raises:
        DataError: If the file is cut off or cannot be read.
    """
    size, count, first = path.stat().st_size, 0, 1
    block: list[bytes] = []
    try:
        with path.open("rb") as raw, _lines(path, raw) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    block.append(line)
                    continue
                if block:
                    yield _review(b"".join(block), f"{path}, line {first}")
                    count += 1
                    if count % _EVERY == 0:
                        progress("reading reviews of beers", raw.tell(), size)
                block, first = [], number + 1
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"'{path}' is damaged after {count:,} reviews ({error}); download it again"
        ) from error
    if block:
        yield _review(b"".join(block), f"{path}, line {first}")
    progress("reading reviews of beers", size, size)


def _lines(path: Path, raw: io.BufferedReader) -> io.BufferedReader:
    if path.suffix != ".gz":
        return raw
    return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 20)


def _review(block: bytes, where: str) -> Review | str:
    fields: dict[bytes, bytes] = dict(_FIELD.findall(block))
    text = " ".join(fields.get(b"review/text", b"").decode("utf-8", "replace").split())
    beer = fields.get(b"beer/beerId", b"").decode("utf-8", "replace").strip()
    if not text or not beer:
        return f"{where} (no {'beer/beerId' if text else 'text'})"
    try:
        ratings = tuple(_points(fields.get(name, b"")) for name in _RATINGS)
    except ValueError as error:
        return f"{where} ({error})"
    return Review(beer, text, ratings)


@functools.lru_cache(1024)
def _points(value: bytes) -> int:
    return parse_rating(value.decode("utf-8", "replace").strip(), STEPS)


@register_dataset(
    NAME,
    summary="12,000 beer reviews, texts, with ratings of five aspects in half points",
    licence="for research, as its authors (Stanford University) say; the texts are their writers'",
    files=(
        Needed(
            _FILES, "all reviews, the archive beeradvocate.txt.gz of the BeerAdvocate data set, packed or not"
        ),
    ),
    published=Published(
        splits={"train": TRAIN, "test": TEST}, classes=(3, 9), source="Ghanooni et al. 2025, Table 1"
    ),
)
def open_beeradvocate(*, path: Path, progress: Progress | None = None) -> Source:
    """Draw 10,000 and 2,000 of the 1.6 million reviews; see `review_source`.

    Raises:
        DataError: If the file is missing, damaged, or has no reviews.
    """
    file = next((path / name for name in _FILES if (path / name).is_file()), None)
    if file is None:
        raise DataError(f"there is no '{path / _FILES[0]}', the file of all reviews")
    return review_source(NAME, read_beers(file, progress or silent), ASPECTS, main="overall", steps=STEPS)
