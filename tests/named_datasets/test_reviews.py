"""TripAdvisor and BeerAdvocate on miniatures in their official formats, whole and broken."""

import gzip
import json
import logging
from pathlib import Path

import pytest

from labeltree.data import check_layout, get_dataset, make_splits, open_source
from labeltree.data.source import Source
from labeltree.datasets import read_beers, read_hotel
from labeltree.datasets.formats.reviews import Review
from labeltree.datasets.tripadvisor import ASPECTS
from labeltree.errors import DataError

HOTEL = """<Overall Rating>4
<Avg. Price>$173
<URL>page

<Author>someone
<Content>Quiet rooms near the station. showReview(11706603, 'full');
<Date>Jan 6, 2009
<img src="new.gif" alt="New"/>
<No. Reader>-1
<No. Helpful>-1
<Overall>5
<Value>4
<Rooms>5
<Location>3
<Cleanliness>2
<Check in / front desk>1
<Service>5
<Business service>-1

<Author>another
<Content>Noisy.
Twice as
dear as it says.
<Overall>2
<Value>-1
<Rooms>2
<Location>-1
<Cleanliness>2
<Check in / front desk>-1
<Service>2
<Business service>-1

<Author>nobody
<Content>
<Overall>3

<Author>wrong
<Content>Rated out of range.
<Overall>9
"""
ORDER = list(ASPECTS)


def beer(number: int, text: str, overall: str = "3.5", **other: str) -> str:
    fields = {"appearance": "4", "aroma": "4.5", "palate": "2.5", "taste": "1", "overall": overall} | other
    rated = "".join(f"review/{name}: {value}\n" for name, value in fields.items())
    return (
        f"beer/name: Beer {number}\nbeer/beerId: {number}\nbeer/brewerId: 7\nbeer/ABV: 5.00\n"
        f"beer/style: Hefeweizen\n{rated}review/time: 1234817823\nreview/profileName: x\n"
        f"review/text: {text}\n\n"
    )


def named(source: Source, row: int) -> list[str | None]:
    """Labels of the aspects of a sample."""
    assert source.aspects is not None
    labels = zip(source.aspect_taxonomies, source.aspects[row].tolist(), strict=True)
    return [None if node < 0 else tree.path_name(node) for tree, node in labels]


def test_lines_of_a_hotel(tmp_path: Path) -> None:
    path = tmp_path / "hotel_1.dat"
    path.write_text(HOTEL)
    first, second, empty, wrong = read_hotel(path)
    # value, rooms, location, cleanliness, service, check-in, overall
    assert first == Review("hotel_1", "Quiet rooms near the station.", (4, 5, 3, 2, 5, 1, 5))
    assert second == Review("hotel_1", "Noisy. Twice as dear as it says.", (-1, 2, -1, 2, 2, -1, 2))
    assert empty == f"{path}, line 33 (no text)"
    assert wrong == f"{path}, line 37 ('9' is not a rating from 1 to 5)"


def test_json_of_a_hotel(tmp_path: Path) -> None:
    ratings = {"Service": "5", "Overall": "4.0", "Value": "4", "Sleep Quality": "1", "Rooms": ""}
    reviews = [
        {"Ratings": ratings, "Content": "Fine", "Title": "t"},
        {"Content": "x"},
        "none",
        {"Ratings": {}},
    ]
    (tmp_path / "7.json").write_text(json.dumps({"Reviews": reviews, "HotelInfo": {"HotelID": "7"}}))
    good, *bad = read_hotel(tmp_path / "7.json")
    assert good == Review("7", "Fine", (4, -1, -1, -1, 5, -1, 4))
    assert bad == [f"{tmp_path / '7.json'}, review {n} ({why})" for n, why in [
        (2, "no Ratings"), (3, "no Ratings"), (4, "no text"),
    ]]  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"Reviews": 3}', b"[" * 100_000, b"\xff\xfe"])
@pytest.mark.parametrize("name", ["hotel_1.dat", "1.json"])
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (problem,) = read_hotel(tmp_path / name)
    assert isinstance(problem, str)
    assert problem.startswith(f"all of {tmp_path / name}")


def test_tripadvisor(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "Review_Texts"
    folder.mkdir()
    for number in range(30):
        (folder / f"hotel_{number}.dat").write_text(HOTEL.replace("Quiet", f"Quiet {number}"))
    (folder / "hotel_98.dat").write_bytes(HOTEL.replace("Quiet", "Caf\xe9").encode("latin-1"))
    (folder / "hotel_99.dat").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        source = open_source("tripadvisor", data_path=tmp_path)
    (record,) = caplog.records  # once, whatever the number
    assert "63 of 125 reviews are left out" in record.getMessage()
    assert "hotel_0.dat, line 33 (no text)" in record.getMessage()
    assert source.modalities == ("text",)
    assert [tree.names[0] for tree in source.aspect_taxonomies] == ORDER
    texts = source.read(range(len(source)))
    assert len(texts) == len(set(texts)) == 31 + 1  # a text is drawn once
    row = texts.index("Quiet 4 rooms near the station.")
    assert named(source, row) == [
        "positive/4", "positive/5", "neutral/3", "negative/2", "positive/5", "negative/1", "positive/5",
    ]  # fmt: skip
    assert source.ratings is not None
    assert source.ratings[row].tolist() == [4, 5, 3, 2, 5, 1, 5]
    row = texts.index("Noisy. Twice as dear as it says.")
    assert named(source, row)[:2] == [None, "negative/2"]
    assert source.ratings[row].tolist() == [-1, 2, -1, 2, 2, -1, 2]
    assert source.taxonomy.path_name(int(source.nodes[row])) == "negative/2"
    assert any("�" in text for text in texts)
    make_splits(source)  # hotels are on one side


def test_beers(tmp_path: Path) -> None:
    path = tmp_path / "beeradvocate.txt"
    blocks = [
        beer(1, "A lot\tof foam.", "3.5"),
        beer(2, "two lines\nof text: or more", "4.5").replace("review/aroma: 4.5", "review/aroma:"),
        beer(3, "", "4"),
        beer(4, "no such rating", "4.2"),
        beer(5, "no points", "0"),
        "review/text: whose beer?\n\n\n",
        beer(6, "the last").rstrip("\n"),
    ]
    path.write_text("".join(blocks))
    found = list(read_beers(path))
    # appearance, aroma, palate, taste, overall, in half points
    assert found[0] == Review("1", "A lot of foam.", (8, 9, 5, 2, 7))
    assert found[1] == Review("2", "two lines of text: or more", (8, -1, 5, 2, 9))
    assert found[2] == f"{path}, line 30 (no text)"
    assert found[3] == f"{path}, line 44 ('4.2' is not a rating from 1 to 5)"
    assert found[4] == Review("5", "no points", (8, 9, 5, 2, -1))
    assert found[5] == f"{path}, line 72 (no beer/beerId)"
    assert found[6] == Review("6", "the last", (8, 9, 5, 2, 7))
    packed = tmp_path / "beeradvocate.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [r for r in read_beers(packed) if isinstance(r, Review)] == [
        r for r in found if isinstance(r, Review)
    ]


def test_beeradvocate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocks = [beer(number % 40, f"Text {number}", "3.5") for number in range(200)] + ["beer/beerId: 3\n\n"]
    blocks += [beer(3, "without an overall rating", "")]
    content = "".join(blocks).encode() + beer(4, "caf\xe9").encode("latin-1")
    (tmp_path / "beeradvocate.txt.gz").write_bytes(gzip.compress(content))
    told: list[int] = []
    with caplog.at_level(logging.WARNING):
        source = open_source(
            "beeradvocate", data_path=tmp_path, progress=lambda _, done, __: told.append(done)
        )
    assert "1 of 203 reviews" in caplog.text
    assert len(told) == 1
    assert len(source) == 201
    assert named(source, 0) == ["positive/4", "positive/4.5", "negative/2.5", "negative/1", "neutral/3.5"]
    assert source.taxonomy.max_depth == 2
    assert source.taxonomy.num_leaves == 9
    assert source.instances.tolist()[-1] == 202  # its place among all reviews
    inventory = check_layout(get_dataset("beeradvocate"), tmp_path)
    assert any("2,000 are published (Ghanooni" in problem for problem in inventory.problems)


def test_files_that_are_cut_off_or_missing(tmp_path: Path) -> None:
    path = tmp_path / "beeradvocate.txt.gz"
    packed = gzip.compress("".join(beer(i, f"{i} {i * i}" * 50) for i in range(300)).encode())
    for content in (packed[: len(packed) // 2], b"no gzip", packed[:200] + b"\0" * 50 + packed[250:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"beeradvocate.txt.gz' is damaged after \d+ reviews"):
            open_source("beeradvocate", data_path=tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="has no review with a text and a rating for 'overall'"):
        open_source("beeradvocate", data_path=tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=r"beeradvocate.txt.gz.* the archive"):
        open_source("beeradvocate", data_path=tmp_path)
    with pytest.raises(DataError, match="a file of reviews per hotel"):
        open_source("tripadvisor", data_path=tmp_path)
