"""Downloads of occurrences: GBIF's tables and Darwin Core archives, iNaturalist's exports, images by rule."""

import csv
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from labeltree.data import Source, open_source, stream_samples
from labeltree.data.biology.darwin_core_archive import read_archive
from labeltree.data.image_rules import FileNames, ImageRule, images_by_rule
from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError
from sweeps import some_now

NAMES = ("gbifID", "class", "order", "family", "genus", "species", "taxonRank", "locality", "mediaType")
TIT = ("Aves", "Passeriformes", "Paridae", "Parus", "Parus major", "SPECIES")
FISH = ("Actinopterygii", "", "Pomacentridae", "Chromis", "", "GENUS")
ROWS = [
    ("11", *TIT, 'the "old" pond', "StillImage"),
    ("12", *FISH, 'reef, 5" deep', "StillImage"),
    ("13", *TIT, "", ""),
]
META = """<archive xmlns="http://rs.tdwg.org/dwc/text/" metadata="eml.xml">
<core encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy=""
 ignoreHeaderLines="1" rowType="http://rs.tdwg.org/dwc/terms/Occurrence"><files><location>occurrence.txt</location></files>
<id index="0"/>{fields}<field default="CC0" term="http://purl.org/dc/terms/license"/></core>
<extension encoding="UTF-8" fieldsTerminatedBy="\\t" fieldsEnclosedBy="" ignoreHeaderLines="1"
 rowType="http://rs.gbif.org/terms/1.0/Multimedia"><files><location>multimedia.txt</location></files>
<coreid index="0"/><field index="1" term="http://purl.org/dc/terms/type"/>
<field index="2" term="http://purl.org/dc/terms/identifier"/></extension></archive>"""


def tabs(rows: list[tuple[str, ...]]) -> str:
    return "\n".join("\t".join(row) for row in rows) + "\n"


def draw(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        Image.new("RGB", (16, 16), (40 * number, 90, 200)).save(folder / name)
    return folder


def archive(path: Path, media: list[tuple[str, str, str]], **changes: str) -> Path:
    fields = "".join(
        f'<field index="{place}" term="http://rs.tdwg.org/dwc/terms/{name}"/>'
        for place, name in enumerate(NAMES)
    )
    members = {
        "meta.xml": META.format(fields=fields),
        "occurrence.txt": tabs([NAMES, *ROWS]),
        "multimedia.txt": tabs([("gbifID", "type", "identifier"), *media]),
    } | {name.replace("_", ".", 1): text for name, text in changes.items()}
    file = path / "download.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in members.items():
            opened.writestr(name, text)
    return file


def paths(source: Source) -> list[str]:
    return [" ".join(source.taxonomy.path(node)) for node in source.nodes.tolist()]


@pytest.mark.parametrize("zipped", [False, True])
def test_a_simple_download_of_gbif(tmp_path: Path, zipped: bool) -> None:
    """Separated by tabs, though it ends in .csv; quotes are characters."""
    file, text = tmp_path / "0012-34.csv", tabs([NAMES, *ROWS])
    if zipped:
        file = file.with_suffix(".zip")
        with zipfile.ZipFile(file, "w") as opened:
            opened.writestr("0012-34.csv", text)
    else:
        file.write_text(text, "utf-8")
    table = DataTable.read(file)
    assert table.num_rows == 3
    assert table.cells("locality").texts == ['the "old" pond', 'reef, 5" deep']
    with pytest.raises(DataError, match=r"names no image files; .*'\{gbifID\}\.jpg'"):
        open_source(file)
    photos = draw(tmp_path / "photos", "11.jpg", "12.jpg", "77.jpg")
    source = open_source(file, image_folder=photos, image_name="{gbifID}.jpg")
    assert paths(source) == [
        "Aves Passeriformes Paridae Parus Parus major",
        "Actinopterygii Pomacentridae (order incertae sedis) Pomacentridae Chromis",
    ]
    assert source.unused is not None
    assert source.unused.lines() == [(4, "gbifID", "it has no image: no file is called '13.jpg'")]


def test_several_files_of_a_row_are_samples_of_one_group(tmp_path: Path) -> None:
    file = tmp_path / "seen.csv"
    file.write_text(tabs([NAMES, *ROWS]), "utf-8")
    photos = draw(tmp_path / "photos", "11_a.jpg", "11_b.png", "12_a.jpg", "13_a.jpg", "13_a.jpg.txt.jpg")
    (photos / "11_c.txt").write_text("no image")
    (photos / "12_a.jpg").write_bytes(b"broken")
    source = open_source(
        file, image_folder=photos, image_name="{gbifID}_?.*", on_error="skip", group_column="gbifID"
    )
    assert source.names is not None
    assert source.unused is not None
    assert len(source) == 4
    assert source.groups is not None
    assert source.groups[0] == source.groups[1] >= 0
    streamed = list(
        stream_samples(file, skip=1, image_folder=photos, image_name="{gbifID}_?.*", fields=["genus"])
    )
    assert [sample.name for sample in streamed[:2]] == ["photos/11_b.png", "photos/12_a.jpg"]
    assert streamed[0].fields == {"genus": "Parus"}
    for name in ("13_a.jpg", "13_a.jpg.txt.jpg"):
        (photos / name).unlink()
    lost = list(stream_samples(file, image_folder=photos, image_name="{gbifID}_?.*"))[-1]
    assert str(lost.content) == "no file is called '13_?.*'"
    assert [row for row, _, reason in source.unused.lines() if "cannot be read" in reason] == [3]


def test_a_file_that_fits_two_rows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "seen.csv"
    file.write_text("id,label\n1,a\n10,b\n")
    photos = draw(tmp_path / "photos", "1.jpg", "10.jpg")
    with pytest.raises(DataError, match=r"finds '10\.jpg' for"):
        open_source(file, image_folder=photos, image_name="{id}*.jpg")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"image_name": "{nothing}.jpg"}, "no column 'nothing'"),
        ({"image_name": "photo.jpg"}, "names no column"),
        ({"image_name": "{id"}, "image_name is '{id'"),
        ({"image_name": "{id!r}.jpg"}, "only names of columns"),
        ({"image_name": "{id}.png"}, "no row has an image: no file is called '1.png'"),
        ({"image_name": "{id}.jpg", "image_folder": "/nowhere"}, "there is no folder '/nowhere'"),
        ({"image_name": "../{id}.jpg"}, "no row has an image"),
    ],
)
def test_bad_rules(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    photos = draw(tmp_path / "photos", "1.jpg", "2.jpg")
    file = tmp_path / "seen.csv"
    file.write_text("id,label\n1,a\n2,b\n")
    draw(tmp_path, "1.jpg")
    with pytest.raises(DataError) as caught:
        open_source(file, **({"image_folder": photos} | settings))
    assert said in str(caught.value)


def test_an_archive_with_several_images_of_an_occurrence(tmp_path: Path) -> None:
    media = [("12", "StillImage", "c.jpg"), ("11", "StillImage", "a.jpg"), ("11", "Sound", "song.mp3")]
    file = archive(tmp_path, [*media, ("11", "StillImage", "b.jpg"), ("13", "StillImage", "c.jpg")])
    photos = draw(tmp_path / "photos", "a.jpg", "b.jpg", "c.jpg")
    source = open_source(file, image_folder=photos)
    assert source.columns["images"] == ("multimedia 1", "multimedia 2")
    assert source.columns["labels"] == NAMES[1:6]
    assert source.names is not None
    assert len(source) == 4
    assert source.groups is not None
    assert source.groups.tolist()[:2] == [0, 0]
    assert DataTable.read(file).cells("license").texts == ["CC0"]
    assert [sample.name for sample in stream_samples(file, image_column="multimedia 1")] == [
        "a.jpg",
        "c.jpg",
        "c.jpg",
    ]


def test_addresses_are_not_fetched(tmp_path: Path) -> None:
    file = archive(tmp_path, [(row[0], "StillImage", f"https://photos.example/{row[0]}") for row in ROWS])
    with pytest.raises(
        DataError, match=r"3 of 3 rows name their images .*--table.image_name '\{gbifID\}.jpg'"
    ):
        open_source(file)
    photos = draw(tmp_path / "photos", "11.jpg", "12.jpg", "13.jpg")
    assert len(open_source(file, image_folder=photos, image_name="{gbifID}.jpg")) == 3


def test_an_export_of_inaturalist(tmp_path: Path) -> None:
    columns = {
        "id": ["1", "2"],
        "image_url": ["https://photos.example/1.jpg", "https://photos.example/2.jpg"],
        "description": ["on a twig, singing", ""],
        "scientific_name": ["Parus major", "Quercus robur"],
        "taxon_class_name": ["Aves", "Magnoliopsida"],
        "taxon_family_name": ["Paridae", "Fagaceae"],
        "taxon_genus_name": ["Parus", "Quercus"],
        "taxon_species_name": ["Parus major", "Quercus robur"],
    }
    file = tmp_path / "observations.csv"
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([list(columns), *zip(*columns.values(), strict=True)])
    with pytest.raises(DataError, match=r"2 of 2 rows .*'\{id\}\.jpg'"):
        open_source(file)
    source = open_source(file, image_folder=draw(tmp_path / "p", "1.jpg", "2.jpg"), image_name="{id}.jpg")
    assert source.columns["labels"] == tuple(name for name in columns if name.startswith("taxon"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"meta_xml": "<archive>"}, "is not XML"),
        ({"meta_xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "declares a document type"),
        ({"meta_xml": "<archive/>"}, "0 core files"),
        (
            {"meta_xml": "<a><core><files><location>../../etc/passwd</location></files></core></a>"},
            "has no file '../../etc/passwd'",
        ),
        ({"occurrence_txt": tabs([NAMES, *ROWS, ("14", "Aves")])}, "cells where the first line has"),
        ({"occurrence_txt": tabs([NAMES])}, "has no rows"),
    ],
)
def test_damaged_archives(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(DataError) as caught:
        open_source(archive(tmp_path, [], **changes), image_name="{gbifID}.jpg")
    assert said in str(caught.value)


def test_zip_files_that_are_no_downloads(tmp_path: Path) -> None:
    file = tmp_path / "some.zip"
    file.write_bytes(b"PK no zip")
    with pytest.raises(DataError, match="damaged, or no zip file"):
        open_source(file)
    for members, said in ((("a.jpg",), "no table"), (("a.csv", "b.csv"), "2 tables \\('a.csv', 'b.csv'\\)")):
        with zipfile.ZipFile(file, "w") as opened:
            for member in members:
                opened.writestr(member, "label,text\nx,y\n")
        with pytest.raises(DataError, match=said):
            open_source(file)


def test_an_archive_that_unpacks_to_terabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bomb.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a.csv", "label,text\n" + "x,y\n" * 200_000)
    assert read_archive(file)[0].num_rows == 200_000
    monkeypatch.setattr("labeltree.safe_files._UNPACKED", 1000)
    with pytest.raises(DataError, match="would become"):
        read_archive(file)


def test_two_settings_that_contradict(tmp_path: Path) -> None:
    file = tmp_path / "seen.csv"
    file.write_text("image,label\na.jpg,a\n")
    with pytest.raises(DataError, match="leave one out"):
        open_source(file, image_column="image", image_name="{label}.jpg")


def test_a_quoted_comma_in_the_first_row_of_an_archive(tmp_path: Path) -> None:
    """The cells of the first row are counted with the quotes that meta.xml describes."""
    fields = '<id index="0"/><field index="1" term="x/scientificName"/><field index="2" term="x/genus"/>'
    enclosed = 'fieldsTerminatedBy="," fieldsEnclosedBy=\'"\''
    files = "<files><location>occurrence.txt</location></files>"
    meta = f"<archive><core {enclosed}>{files}{fields}</core></archive>"
    rows = '1,"Parus major Linnaeus, 1758",Parus\n2,Parus,Parus\n'
    table = DataTable.read(archive(tmp_path, [], meta_xml=meta, occurrence_txt=rows))
    assert table.columns == ["id", "scientificName", "genus"]
    assert table.cells("scientificName").texts == ["Parus major Linnaeus, 1758", "Parus"]
    unclosed = archive(tmp_path, [], meta_xml=meta, occurrence_txt='1,"' + "x" * 200_000)
    with pytest.raises(DataError, match="a cell is too long, or not closed; correct how meta"):
        DataTable.read(unclosed)


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        (['"a ""great"" tit"', "x"], ['a "great" tit', "x"]),
        (['"a\nb"', "x"], ["a\nb", "x"]),
        (['"old"', "x"], ['"old"', "x"]),
        (['"old', 'pond"'], ['"old', 'pond"']),
        (['"a ""great"" tit"', '5" deep'], ['"a ""great"" tit"', '5" deep']),
    ],
)
def test_a_table_of_gbif_that_was_saved_again(tmp_path: Path, cells: list[str], texts: list[str]) -> None:
    """Quotes enclose cells if each stands at the border of a cell, and some cell needs them."""
    file = tmp_path / "again.csv"
    file.write_text("gbifID\tlocality\tgenus\n" + "".join(f"1\t{cell}\tParus\n" for cell in cells))
    table = DataTable.read(file)
    assert (table.num_rows, table.cells("locality").texts) == (2, texts)


def test_a_long_table_of_gbif_that_was_saved_again(tmp_path: Path) -> None:
    """The first megabytes end within a quoted cell."""
    row = '1\t"a ""great"" \n' + "x" * 999 + '"\n'
    file = tmp_path / "again.csv"
    file.write_text("gbifID\tlocality\n" + row * 4500)
    assert DataTable.read(file).num_rows == 4500


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "\nlabel,text\n01,x\n"), ("a.tsv", "label\ttext, or words\n01\tx\n")],
)
def test_zipped_text_is_read_as_other_text(tmp_path: Path, name: str, text: str, zipped: bool) -> None:
    file = tmp_path / name
    file.write_text(text)
    if zipped:
        file = file.with_suffix(".zip")
        with zipfile.ZipFile(file, "w") as opened:
            opened.writestr(name, text)
    table = DataTable.read(file)
    assert len(table.columns) == 2
    assert table.cells("label").texts == ["01"]


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("{dwc:id}.jpg", ["1.jpg"]),
        ("*_{dwc:id}.jpg", ["a_1.jpg"]),
        ("*/{dwc:id}_?.*", ["deep/1_a.jpg", "deep/1_b.png"]),
        ("deep/*_{dwc:id}?*.jpg", ["deep/x_12.jpg"]),
        ("{dwc:id}*", ["1.jpg"]),
    ],
)
def test_files_of_a_rule(rule: str, found: list[str]) -> None:
    listed = FileNames(["1.jpg", "a_1.jpg", "a_11.jpg", "deep/1_a.jpg", "deep/1_b.png", "deep/x_12.jpg"])
    assert ImageRule(rule).files(listed, {"dwc:id": "1"}) == found


@pytest.mark.parametrize("rule", some_now(["*_{id}.jpg", "{id}_*.jpg", "*/{id}_*.jpg"]))
def test_the_time_of_a_rule_does_not_grow_with_rows_times_files(rule: str) -> None:
    known = ImageRule(rule)
    names = [known.name({"id": str(number)}).replace("*", "x") for number in range(20_000)]
    listed, begin = FileNames(names), time.process_time()
    assert all(known.files(listed, {"id": str(number)}) for number in range(20_000))
    assert time.process_time() - begin < 5


def test_only_rows_without_an_image_have_reasons(tmp_path: Path) -> None:
    file = tmp_path / "seen.csv"
    file.write_text("id,label\n3,a\n1,b\n2,c\n1,b\n")
    photos = draw(tmp_path / "photos", "1_a.jpg", "1_b.jpg", "2_a.jpg")
    found = images_by_rule(DataTable.read(file), photos, ImageRule("{id}_*.jpg"))
    assert [Path(found.files[place]).name for place in found.places] == [
        *("1_a.jpg", "1_b.jpg", "2_a.jpg", "1_a.jpg", "1_b.jpg")
    ]
    assert (found.rows.tolist(), found.numbers.tolist()) == ([1, 1, 2, 3, 3], [0, 1, 0, 0, 1])
    assert found.unused.reasons == (("id", "it has no image: no file is called '3_*.jpg'"),)
    assert [row for row, _, _ in found.unused.lines()] == [1]


def test_all_images_of_an_archive_are_streamed(tmp_path: Path) -> None:
    media = [("11", "StillImage", "a.jpg"), ("12", "StillImage", "c.jpg"), ("11", "StillImage", "b.jpg")]
    file = archive(tmp_path, media)
    streamed = list(stream_samples(file, fields=["gbifID"]))
    assert [(sample.name, sample.fields["gbifID"]) for sample in streamed] == [
        *(("a.jpg", "11"), ("b.jpg", "11"), ("c.jpg", "12"), ("line 4", "13"))
    ]
    assert str(streamed[-1].content) == "its 'multimedia 1' and 'multimedia 2' are empty"
    assert [sample.name for sample in stream_samples(file, skip=1)] == ["b.jpg", "c.jpg", "line 4"]


def test_streams_fetch_no_addresses(tmp_path: Path) -> None:
    file = tmp_path / "seen.csv"
    file.write_text("image,id\na.jpg,1\nhttps://a.b/c.jpg,2\n")
    with pytest.raises(DataError, match=r"line 3 names its image .*'\{id\}\.jpg'"):
        list(stream_samples(file))
