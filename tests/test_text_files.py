"""Text as people save it: what is unpacked, which encoding is found, what is refused."""

import bz2
import gzip
import lzma

import pyarrow as pa
import pytest

from labeltree.text_files import decode_text, is_utf8, read_unpacked, split_packed

TEXT = "text,label\nhoots,Vögel/Eule\n"


@pytest.mark.parametrize(
    ("packing", "pack"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
    ],
)
def test_unpacks_by_suffix(tmp_path, packing, pack):
    path = tmp_path / f"table.CSV{packing.upper()}"
    path.write_bytes(pack(TEXT.encode()))
    assert read_unpacked(path) == TEXT.encode()
    assert split_packed(path) == (".csv", packing)


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".xz", ".zst"])
def test_damaged_packing_is_a_sentence(tmp_path, packing):
    path = tmp_path / f"table.csv{packing}"
    path.write_bytes(b"text,label\n" * 9)
    with pytest.raises(ValueError, match="packing"):
        read_unpacked(path)
    path.write_bytes(gzip.compress(TEXT.encode() * 99)[:50] if packing == ".gz" else b"")
    if packing == ".gz":
        with pytest.raises(ValueError, match="packing"):
            read_unpacked(path)


@pytest.mark.parametrize(
    ("encoding", "said", "guess"),
    [
        ("utf-8", "utf-8", False),
        ("utf-8-sig", "utf-8", False),
        ("utf-16", "utf-16", False),
        ("utf-32", "utf-32", False),
        ("utf-16-le", "utf-16-le", False),
        ("utf-16-be", "utf-16-be", False),
        ("cp1252", "cp1252", True),
        ("latin-1", "cp1252", True),
    ],
)
def test_finds_the_encoding(encoding, said, guess):
    assert decode_text(TEXT.encode(encoding)) == (TEXT, said, guess)


@pytest.mark.parametrize(
    ("text", "encoding"), [("птица/сова\n", "koi8-r"), ("动物/猫头鹰\n动物/鸭子\n", "gbk")]
)
def test_other_code_pages_are_named_or_refused(text, encoding):
    data = f"text,label\n{text}".encode(encoding)
    with pytest.raises(ValueError, match="line 2 is not UTF-8"):
        decode_text(data)
    assert decode_text(data, encoding).text.endswith(text)


def test_wrong_encoding_is_a_sentence():
    with pytest.raises(ValueError, match="encoding 'klingon' is unknown"):
        decode_text(b"a", "klingon")
    with pytest.raises(ValueError, match="line 2 is not ascii"):
        decode_text(TEXT.encode(), "ascii")


def test_utf8_may_end_within_a_letter():
    data = "Vögel".encode()
    assert is_utf8(data[:2])
    assert not is_utf8(b"V\xf6gel")
