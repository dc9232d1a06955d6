"""DeepFashion In-Shop from a miniature in its layout."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import get_dataset, make_splits, open_source
from labeltree.errors import DataError

IMAGES = (
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "train"),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "train"),
    ("img/WOMEN/Dresses/id_00000002/01_1_front.jpg", "train"),
    ("img/MEN/Tees_Tanks/id_00000080/01_7_additional.jpg", "train"),
    ("img/WOMEN/Tees_Tanks/id_00000081/01_1_front.jpg", "train"),
    ("img/WOMEN/Dresses/id_00000001/02_1_front.jpg", "query"),
    ("img/WOMEN/Dresses/id_00000001/02_3_back.jpg", "gallery"),
    ("img/WOMEN/Dresses/id_00000001/03_3_back.jpg", "gallery"),
    ("img/WOMEN/Blouses_Shirts/id_00000001/01_1_front.jpg", "query"),
)
LIST = "Eval/list_eval_partition.txt"


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    rows = [f"{file:<70} {Path(file).parent.name} {part}" for file, part in IMAGES]
    write_list(tmp_path / LIST, str(len(rows)), "image_name item_id evaluation_status", *rows)
    for seed, (file, _) in enumerate(IMAGES):
        write_image(tmp_path / "Img" / file, seed, (16, 16))
    return tmp_path


def test_reader(folder: Path) -> None:
    source = open_source("inshop", data_path=folder, image_size=8)
    assert source.split.tolist() == ["train"] * 5 + ["test"] * 4
    assert source.taxonomy.decode(source.nodes) == [
        "Dresses/id_00000002/02",
        "Dresses/id_00000002/02",
        "Dresses/id_00000002/01",
        "Tees Tanks/id_00000080/01",
        "Tees Tanks/id_00000081/01",
        "Dresses/id_00000001/02",
        "Dresses/id_00000001/02",
        "Dresses/id_00000001/03",
        "Blouses Shirts/id_00000001/01",
    ]
    assert source.paths([0]) == [str(folder / "Img" / IMAGES[0][0])]


def test_items_stay_together_even_where_two_categories_have_them(folder: Path) -> None:
    source = open_source("inshop", data_path=folder, image_size=8)
    assert source.groups is not None
    assert sorted(Counter(source.groups.tolist()).values()) == [1, 1, 3, 4]
    assert len(set(source.groups[5:].tolist())) == 1
    splits = make_splits(source, val=0.4)
    assert len(set(splits.split[:3])) == 1
    assert splits.split[5:].tolist() == ["test"] * 4
    edit_line(folder / LIST, 3, f"{IMAGES[0][0]} id_00000002 query")
    with pytest.raises(DataError, match=r"divide 1 group.*test and train"):
        make_splits(open_source("inshop", data_path=folder, image_size=8))


def test_items_alone_and_query_and_gallery_alone(folder: Path) -> None:
    whole = open_source("inshop", data_path=folder, image_size=8)
    items = open_source("inshop-items", data_path=folder, image_size=8)
    assert items.taxonomy.max_depth == 2
    assert items.taxonomy.decode(items.nodes[:1]) == ["Dresses/id_00000002"]
    for part, instances in (("query", [5, 8]), ("gallery", [6, 7])):
        source = open_source(f"inshop-{part}", data_path=folder, image_size=8)
        assert source.instances.tolist() == instances
        assert source.taxonomy == whole.taxonomy
        assert source.nodes.tolist() == whole.nodes[instances].tolist()
        assert source.split.tolist() == ["test", "test"]
        assert (source.load([1]) == whole.load(instances[1:])).all()


def test_check(folder: Path) -> None:
    assert check("inshop", folder) == ({"train": 5, "test": 4}, (3, 5, 7), [])
    assert check("inshop-items", folder)[1:] == ((3, 5), [])
    assert check("inshop-query", folder) == ({"test": 2}, (2, 2, 2), [])
    check_refuses_what_is_missing("inshop", folder, LIST, "Img/img")
    published = get_dataset("inshop").published
    assert published is not None
    assert dict(published.splits) == {"train": 25_882, "test": 26_830}
    assert sum(published.splits.values()) == 52_712


def test_other_places_and_line_ends(folder: Path) -> None:
    before = open_source("inshop", data_path=folder, image_size=8)
    write_list(
        folder / "list_eval_partition.txt", *(folder / LIST).read_text("utf-8").splitlines(), end="\r\n"
    )
    (folder / LIST).unlink()
    (folder / "Img" / "img").rename(folder / "img")
    after = open_source("inshop", data_path=folder, image_size=8)
    assert after.taxonomy == before.taxonomy
    assert after.nodes.tolist() == before.nodes.tolist()
    assert after.paths([0]) == [str(folder / IMAGES[0][0])]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{IMAGES[1][0]} id_00000002", r"line 4: it has 2 column\(s\), expected 3: file, item, part"),
        (f"{IMAGES[1][0]} id_00000002 val", "line 4: the part is 'val', expected train or query or gallery"),
        (f"{IMAGES[1][0]} id_00000003 train", "line 4: the item is 'id_00000003', but .* in 'id_00000002'"),
        (
            "img/Dresses/id_00000002/02_2.jpg id_00000002 train",
            "line 4: the file is '.*', expected the form img/",
        ),
        ("../img/W/D/id_00000002/02_2.jpg id_00000002 train", r"line 4: '\.\./img.*' lies outside"),
    ],
)
def test_wrong_lines(folder: Path, line: str, sentence: str) -> None:
    edit_line(folder / LIST, 4, line)
    with pytest.raises(DataError, match=sentence):
        open_source("inshop", data_path=folder, image_size=8)


def test_an_image_that_is_missing(folder: Path) -> None:
    (folder / "Img" / IMAGES[6][0]).unlink()
    with pytest.raises(
        DataError, match=r"1 of 9 images cannot be read: '.*02_3_back\.jpg' \(there is no such file\)"
    ):
        open_source("inshop", data_path=folder, image_size=8)
    gallery = open_source("inshop-gallery", data_path=folder, image_size=8, on_error="skip")
    assert gallery.instances.tolist() == [7]
