"""HAM10000 from a miniature in its layout: two trees, lesions, and where its images may lie."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import make_splits, open_source
from labeltree.datasets import ham10000_taxonomy
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

HEADER = "lesion_id,image_id,dx,dx_type,age,sex,localization"
CODES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Two lesions of each diagnosis with two images each, the second of them in the second archive."""
    rows = []
    for number in range(28):
        lesion, code = f"HAM_{number // 2:07}", CODES[number // 4]
        rows.append(f"{lesion},ISIC_{number:07},{code},histo,60.0,male,scalp")
        part = f"HAM10000_images_part_{number % 2 + 1}"
        write_image(tmp_path / part / f"ISIC_{number:07}.jpg", number, (12, 9))
    write_list(tmp_path / "HAM10000_metadata.csv", HEADER, *rows)
    return tmp_path


def test_reader(folder: Path) -> None:
    source = open_source("ham10000", data_path=folder, image_size=8)
    assert source.taxonomy.decode(source.nodes[::4]) == [
        "malignant/actinic keratosis",
        "malignant/basal cell carcinoma",
        "benign/benign keratosis",
        "benign/dermatofibroma",
        "malignant/melanoma",
        "benign/melanocytic nevus",
        "benign/vascular lesion",
    ]
    assert source.groups.tolist() == [number // 2 for number in range(28)]
    assert [path[-38:] for path in source.paths([0, 1])] == [
        "HAM10000_images_part_1/ISIC_0000000.jpg"[-38:],
        "HAM10000_images_part_2/ISIC_0000001.jpg"[-38:],
    ]
    split = make_splits(source, val=0.2, test=0.4).split
    assert split[::2].tolist() == split[1::2].tolist()


def test_the_second_tree(folder: Path) -> None:
    source = open_source("ham10000-lineage", data_path=folder, image_size=8)
    assert source.taxonomy.decode(source.nodes[::4]) == [
        "keratinocytic/actinic keratosis",
        "keratinocytic/basal cell carcinoma",
        "keratinocytic/benign keratosis",
        "dermatofibroma",
        "melanocytic/melanoma",
        "melanocytic/melanocytic nevus",
        "vascular/vascular lesion",
    ]
    first, second = ham10000_taxonomy(), ham10000_taxonomy("ham10000-lineage")
    names = [{tree.names[leaf] for leaf in tree.leaves.tolist()} for tree in (first, second)]
    assert names[0] == names[1]
    assert len(names[0]) == 7


@pytest.mark.parametrize("place", ["HAM10000_images", ""])
def test_images_in_one_folder(folder: Path, place: str) -> None:
    before = open_source("ham10000", data_path=folder, image_size=8)
    (folder / place).mkdir(exist_ok=True)
    for part in ("HAM10000_images_part_1", "HAM10000_images_part_2"):
        for file in (folder / part).iterdir():
            file.rename(folder / place / file.name)
        (folder / part).rmdir()
    after = open_source("ham10000", data_path=folder, image_size=8)
    assert after.load(range(28)).equal(before.load(range(28)))


@pytest.mark.parametrize(
    ("name", "delimiter", "end"),
    [
        ("HAM10000_metadata.tab", "\t", "\n"),
        ("HAM10000_metadata", ",", "\r\n"),
        ("HAM10000_metadata", "\t", "\n"),
    ],
)
def test_forms_of_the_metadata(folder: Path, name: str, delimiter: str, end: str) -> None:
    before = open_source("ham10000", data_path=folder, image_size=8)
    lines = (folder / "HAM10000_metadata.csv").read_text().splitlines()
    (folder / "HAM10000_metadata.csv").unlink()
    quoted = [delimiter.join(f'"{cell}"' for cell in line.split(",")) for line in lines]
    write_list(folder / name, *quoted, end=end)
    after = open_source("ham10000", data_path=folder, image_size=8)
    assert after.nodes.equal(before.nodes)
    assert after.groups.equal(before.groups)


def test_check(folder: Path) -> None:
    assert check("ham10000", folder) == ({"all": 28}, (2, 7), [])
    assert check("ham10000-lineage", folder) == ({"all": 28}, (4, 6), [])
    parts = ("HAM10000_images_part_1", "HAM10000_images_part_2")
    check_refuses_what_is_missing("ham10000", folder, "HAM10000_metadata.csv", *parts)


@pytest.mark.parametrize(
    ("number", "line", "sentence"),
    [
        (1, HEADER.replace("dx,", "diagnosis,"), "has no column 'dx'; it has lesion_id, image_id, diagnosis"),
        (
            3,
            "HAM_1,ISIC_0000001,melanoma,histo,60,male,back",
            "line 3: the diagnosis is 'melanoma', not akiec",
        ),
        (3, ",ISIC_0000001,nv,histo,60,male,back", "line 3: the column 'lesion_id' is empty"),
        (3, "HAM_1,ISIC_0000001,nv", "line 3 has 3 cells where the header has 7"),
        (3, "HAM_1,ISIC_9,nv,histo,60,male,back", r"1 of 28 images .*part_2/ISIC_9\.jpg' \(there is no such"),
        (3, "HAM_1,../x,nv,histo,60,male,back", r"line 3: '\.\./x' is not the name of an image"),
    ],
)
def test_wrong_lines(folder: Path, number: int, line: str, sentence: str) -> None:
    edit_line(folder / "HAM10000_metadata.csv", number, line)
    with pytest.raises(DataError, match=sentence):
        open_source("ham10000", data_path=folder, image_size=8)
    assert check("ham10000", folder)[2]
