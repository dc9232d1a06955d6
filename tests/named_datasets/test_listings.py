"""Lists with a record a line."""

import os
from pathlib import Path

import pytest
from official_layouts import write_list

from labeltree.datasets.formats.listings import legible, read_listing
from labeltree.errors import DataError

LINES = ("image class name", "1 7 a one", "", "  3\t9   another one  ", "2 8 b")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_records(tmp_path: Path, end: str) -> None:
    listed = read_listing(
        write_list(tmp_path / "a.txt", *LINES, end=end), ("image", "class", "name"), heading=1
    )
    assert listed.texts("name") == ["a one", "another one", "b"]
    assert listed.whole("class").tolist() == [7, 9, 8]
    assert listed.reals("class", "image").tolist() == [[7, 1], [9, 3], [8, 2]]
    assert listed.lines == [2, 4, 5]
    ordered = listed.by("image", ["2", "1"], "image")
    assert ordered.texts("name") == ["b", "a one"]
    assert ordered.lines == [5, 2]
    assert listed.where([True, False, True]).texts("image") == ["1", "2"]
    assert listed.choices("image", {"1": "x", "2": "y", "3": "z"}) == ["x", "z", "y"]


def test_byte_order_mark_and_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf1 Caf\xe9\n2 Caf\xc3\xa9\n")
    listed = read_listing(tmp_path / "a.txt", ("image", "name"))
    assert listed.texts("image") == ["1", "2"]
    assert [os.fsencode(name) for name in listed.texts("name")] == [b"Caf\xe9", b"Caf\xc3\xa9"]
    assert [legible(name) for name in listed.texts("name")] == ["Café", "Café"]


def test_what_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    columns = ("image", "class", "file")
    path = tmp_path / "a.txt"
    with pytest.raises(DataError, match=r"there is no '.*a\.txt'"):
        read_listing(path, columns)
    write_list(path, "1 2 f", "2 3")
    with pytest.raises(
        DataError, match=r"a\.txt', line 2: it has 2 column\(s\), expected 3: image, class, file"
    ):
        read_listing(path, columns)
    write_list(path, "", "heading")
    with pytest.raises(DataError, match="lists nothing"):
        read_listing(path, columns, heading=2)
    write_list(path, "1 x f", "2 3 /etc/passwd", "1 nan ../f", "4 99999999999999999999 g/../../h")
    listed = read_listing(path, columns)
    with pytest.raises(DataError, match="line 1: the class is 'x', expected a whole number"):
        listed.whole("class")
    with pytest.raises(DataError, match="line 3: the class is 'nan', expected a number"):
        listed.where([False, True, True]).reals("class")
    with pytest.raises(DataError, match=r"line 4: the class is '9+', expected a whole number"):
        listed.where([False, False, False, True]).whole("class")
    with pytest.raises(DataError, match="line 1: the class is 'x', expected 3 or 4"):
        listed.choices("class", {"3": 0, "4": 1})
    with pytest.raises(DataError, match="line 3: the image '1' has a line already, 1"):
        listed.by("image", ["1"], "image")
    with pytest.raises(DataError, match="no line for the image '5'"):
        listed.where([True, True]).by("image", ["5"], "image")
    for row, line in ((1, 2), (2, 3), (3, 4)):
        with pytest.raises(DataError, match=f"line {line}: '.*' lies outside the data set's folder"):
            listed.where(number == row for number in range(4)).files("file")
