"""ODIR-5K from miniatures in its layouts: the graph, a patient's one label, both eyes on one side."""

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from official_layouts import check, check_refuses_what_is_missing, edit_line, write_list

from labeltree.data import make_splits, open_source
from labeltree.datasets import odir_graph, odir_taxonomy
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

HEADER = "ID,Patient Age,Patient Sex,Left-Fundus,Right-Fundus,Left-Diagnostic Keywords,"
HEADER += "Right-Diagnostic Keywords,N,D,G,C,A,H,M,O"
# Flags N D G C A H M O of each patient, and the label that follows.
PATIENTS = {
    "10000000": "normal",
    "01000000": "diabetes",
    "01000100": "hypertension",
    "00110000": "cataract",
    "00100001": "glaucoma",
    "01001001": "age-related macular degeneration",
    "00000011": "myopia",
    "00000001": "other",
    "01000001": "diabetes",
}
TRAINING = "Training Set/Annotation/training annotation (English).csv"


def lines(first: int) -> list[str]:
    return [
        f'{i},60,Male,{i}_left.jpg,{i}_right.jpg,"dust, normal fundus",normal fundus,{",".join(flags)}'
        for i, flags in enumerate(PATIENTS, first)
    ]


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """The authors' three sets, each with a patient of every kind."""
    for first, (place, name) in enumerate(
        (
            ("Training Set", "training"),
            ("Off-site Test Set", "off-site test"),
            ("On-site Test Set", "on-site test"),
        )
    ):
        rows = lines(100 * first)
        write_list(tmp_path / place / "Annotation" / f"{name} annotation (English).csv", HEADER, *rows)
        for row in rows:
            for file in row.split(",")[3:5]:
                write_image(tmp_path / place / "Images" / file, int(file.split("_")[0]), (12, 10))
    return tmp_path


@pytest.fixture
def challenge(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training set as the challenge distributed it."""
    top = tmp_path_factory.mktemp("challenge")
    (folder / "Training Set" / "Images").rename(top / "ODIR-5K_Training_Dataset")
    (folder / TRAINING).rename(top / "ODIR-5K_Training_Annotations(Updated)_V2.csv")
    return top


def test_reader(folder: Path) -> None:
    source = open_source("odir-5k", data_path=folder, image_size=8)
    assert len(source) == 54
    assert source.split.tolist() == ["train"] * 18 + ["test"] * 36
    names = [source.taxonomy.names[node] for node in source.nodes.tolist()]
    assert names == [label for label in PATIENTS.values() for _ in range(2)] * 3
    assert source.groups.tolist() == [number // 2 for number in range(54)]
    assert source.paths([1, 18]) == [
        str(folder / "Training Set" / "Images" / "0_right.jpg"),
        str(folder / "Off-site Test Set" / "Images" / "100_left.jpg"),
    ]
    split = make_splits(source, val=0.2).split
    assert split[::2].tolist() == split[1::2].tolist()
    assert (split == "test").sum() == 36


def test_the_graph_becomes_a_tree_by_the_parent_nearest_the_root() -> None:
    graph, tree = odir_graph(), odir_taxonomy()
    assert graph.num_leaves == tree.num_leaves == 8
    for name in ("diabetes", "hypertension"):
        parents = {graph.names[parent] for parent in graph.parents(graph.find(name))}
        assert parents == {"systemic disease", "retinal disease"}
        assert tree.path(tree.find(name)) == ("systemic disease", name)
    assert tree.path(tree.find("myopia")) == ("ocular disease", "retinal disease", "myopia")
    # The tree is the same whatever the frequencies: no two parents are equally near.
    for rare in graph.leaves.tolist():
        counts = [0] * len(graph)
        counts[rare] = 1000
        assert graph.project("odir", frequencies=counts)[0] == tree


def test_the_challenge_has_the_training_set_alone(challenge: Path) -> None:
    source = open_source("odir-5k", data_path=challenge, image_size=8)
    assert source.split.tolist() == ["train"] * 18
    split = make_splits(source, val=0.2, test=0.3).split
    assert split[::2].tolist() == split[1::2].tolist()
    assert {"train", "val", "test"} == set(split)


def test_a_table_with_a_row_an_image(challenge: Path) -> None:
    whole = open_source("odir-5k", data_path=challenge, image_size=8)
    table = challenge / "ODIR-5K_Training_Annotations(Updated)_V2.csv"
    frame = pd.read_csv(table, dtype=str)
    table.unlink()
    eyes = [frame.assign(filename=frame[f"{side}-Fundus"]) for side in ("Right", "Left")]
    pd.concat(eyes).iloc[1:].to_csv(challenge / "full_df.csv", index=False)
    source = open_source("odir-5k", data_path=challenge, image_size=8)
    assert len(source) == 17
    place = {path: row for row, path in enumerate(whole.paths(range(18)))}
    order = [place[path] for path in source.paths(range(17))]
    assert source.nodes.equal(whole.nodes[order])
    assert len(set(zip(source.groups.tolist(), whole.groups[order].tolist(), strict=True))) == 9


def test_workbooks(challenge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_source("odir-5k", data_path=challenge, image_size=8)
    table = challenge / "ODIR-5K_Training_Annotations(Updated)_V2.csv"
    frame = pd.read_csv(table, dtype=str).rename(columns={"ID": " ID "})
    workbook = table.with_suffix(".xlsx")
    table.rename(workbook)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "openpyxl", None)
        with pytest.raises(ImportError, match=r"V2\.xlsx' is a workbook, .*openpyxl.* save the sheet"):
            open_source("odir-5k", data_path=challenge)
    pytest.importorskip("openpyxl")
    frame.to_excel(workbook, index=False)
    assert open_source("odir-5k", data_path=challenge, image_size=8).nodes.equal(before.nodes)


def test_check(folder: Path) -> None:
    assert check("odir-5k", folder) == ({"train": 18, "test": 36}, (4, 5, 2), [])
    check_refuses_what_is_missing("odir-5k", folder, "Training Set/Images")
    (folder / TRAINING).rename(folder / "aside")
    with pytest.raises(
        DataError, match=r"no '.*/Training Set/Annotation/training annotation .* or .*full_df\.csv' \(diagn"
    ):
        open_source("odir-5k", data_path=folder)


def change(line: str, field: int, value: str) -> str:
    cells = line.replace('"dust, normal fundus"', "dust").split(",")
    cells[field] = value
    return ",".join(cells)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        (7, "2", "line 4: the column 'N' is '2', not 0 or 1"),
        (8, "", "line 4: the column 'D' is empty"),
        (3, "../0_left.jpg", r"line 4: '\.\./0_left\.jpg' is not the name of a file alone"),
        (3, "7_up.jpg", r"1 of 54 images .*Training Set/Images/7_up\.jpg' \(there is no such file"),
        (0, "", "line 4: the column 'ID' is empty"),
    ],
)
def test_wrong_cells(folder: Path, field: int, value: str, sentence: str) -> None:
    edit_line(folder / TRAINING, 4, change(lines(0)[2], field, value))
    with pytest.raises(DataError, match=sentence):
        open_source("odir-5k", data_path=folder, image_size=8)
    assert check("odir-5k", folder)[2]


def test_patients_without_a_diagnosis(folder: Path) -> None:
    edit_line(folder / TRAINING, 2, "0,60,Male,0_left.jpg,0_right.jpg,a,b,0,0,0,0,0,0,0,0")
    with pytest.raises(DataError, match="line 2: there is no diagnosis, all of them are 0"):
        open_source("odir-5k", data_path=folder)
