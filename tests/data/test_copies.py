"""Files of equal bytes are one group: no split divides them, unless the data set's own does."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.data.copies import connected_groups, keep_copies_together, note_equal_texts
from labeltree.data.folders import open_folder
from labeltree.data.splits import make_splits
from labeltree.data.tables.table_source import open_table


def photos(folder: Path, copied: int, splits: tuple[str, ...] = ("",)) -> Path:
    """Pictures of noise in two classes, and copies of the first of each class and split."""
    random = np.random.default_rng(0)
    for split in splits:
        for name in ("a", "b"):
            where = folder / split / name
            where.mkdir(parents=True)
            for i in range(12):
                pixels = random.integers(0, 255, (8, 8, 3), dtype="uint8")
                Image.fromarray(pixels).save(where / f"{i:02d}.png")
            for i in range(copied):
                shutil.copy(where / f"{i:02d}.png", where / f"{i:02d} (copy).png")
    return folder


def test_copies_are_one_group_which_no_split_divides(tmp_path: Path) -> None:
    plain = open_folder(photos(tmp_path, 6), image_size=8)
    source = keep_copies_together(plain)
    assert plain.groups is None
    groups = source.groups.numpy()
    names = [Path(name).name.split(" ")[0].removesuffix(".png") for name in source.sample_names()]
    whole = [f"{Path(name).parent}/{short}" for name, short in zip(source.sample_names(), names, strict=True)]
    for group in set(groups.tolist()) - {-1}:
        assert len({whole[at] for at in np.flatnonzero(groups == group)}) == 1
    assert sorted(np.bincount(groups[groups >= 0]).tolist()) == [2] * 12
    assert source.notes[-1].startswith("12 samples are copies of others (files of equal bytes)")
    for seed in range(5):
        split = np.asarray(make_splits(source, val=0.2, test=0.3, seed=seed).split)
        assert all(len(set(split[groups == group])) == 1 for group in set(groups.tolist()) - {-1})


def test_copies_join_groups_that_are_given(tmp_path: Path) -> None:
    plain = open_folder(photos(tmp_path, 1), image_size=8)
    patients = torch.arange(len(plain)) // 3
    source = keep_copies_together(replace(plain, groups=patients))
    names = source.sample_names()
    for name in ("a/00.png", "b/00.png"):
        copy = name.replace(".png", " (copy).png")
        assert source.groups[names.index(name)] == source.groups[names.index(copy)]
    together = patients == patients[names.index("a/00.png")]
    assert len(source.groups[together].unique()) == 1


def test_the_groups_that_copies_join_are_named(tmp_path: Path) -> None:
    plain = open_folder(photos(tmp_path, 0), image_size=8)
    patients = torch.arange(24) // 3
    digests = np.random.default_rng(0).integers(1, 255, (24, 16), dtype=np.uint8)
    digests[3] = digests[0]
    given = replace(
        plain, groups=patients, group_names=np.array([f"P{p}" for p in patients.tolist()]), digests=digests
    )
    source = keep_copies_together(given)
    assert source.groups.unique().tolist() == list(range(7))
    assert source.notes[-1] == "copies lie in 2 different groups ('P0' and 'P1') and join them to 1"


@pytest.mark.parametrize("chain", [False, True])
def test_copies_do_not_join_most_of_the_samples(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, chain: bool
) -> None:
    """An empty vector in every patient, or a copy of each patient's in the next one, leave patients apart."""
    plain = open_folder(photos(tmp_path, 0), image_size=8)
    patients = torch.arange(24) // 3
    digests = np.random.default_rng(0).integers(1, 255, (24, 16), dtype=np.uint8)
    if chain:
        digests[3::3] = digests[2:-1:3]
    else:
        digests[::3] = digests[0]
    digests[1] = digests[2]  # within a patient
    with caplog.at_level(logging.WARNING):
        source = keep_copies_together(replace(plain, groups=patients, digests=digests))
    assert source.groups.tolist() == patients.tolist()
    assert "would be more than half of the samples if they were joined" in caplog.text
    assert "such copies may lie in several splits" in source.notes[-1]


def test_copies_that_join_too_much_do_not_undo_others(tmp_path: Path) -> None:
    """Patients 0 to 4 are chained to most of the samples; 6 and 7 share a copy."""
    plain = open_folder(photos(tmp_path, 0), image_size=8)
    patients = torch.arange(24) // 3
    digests = np.random.default_rng(0).integers(1, 255, (24, 16), dtype=np.uint8)
    digests[3:15:3] = digests[2:14:3]
    digests[21] = digests[20]
    source = keep_copies_together(replace(plain, groups=patients, digests=digests))
    assert source.groups.tolist() == (patients - (patients == 7).long()).tolist()
    assert "copies lie in 2 different groups and join them to 1" in source.notes
    assert "8 samples are files of equal bytes in 5 different groups" in source.notes[-1]


def test_the_data_sets_own_splits_stay_and_copies_across_them_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = photos(tmp_path, 0, ("train", "val", "test"))  # nothing of val is copied, and none is said to be
    for i in range(5):
        shutil.copy(folder / f"train/a/{i:02d}.png", folder / f"test/a/again{i}.png")
    shutil.copy(folder / "train/a/07.png", folder / "train/a/07 (copy).png")
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        source = keep_copies_together(open_folder(folder, image_size=8))
    told = "5 of 29 samples of test are copies of samples of train (files of equal bytes)"
    assert any(note.startswith(told) for note in source.notes)
    assert told in caplog.text
    assert np.bincount(source.groups[source.groups >= 0].numpy()).tolist() == [2]  # those within a split
    assert set(make_splits(source).split) == {"train", "val", "test"}


def test_a_file_that_is_most_of_the_samples_is_no_group(tmp_path: Path) -> None:
    """Placeholders: as one group they could not be divided among the splits."""
    folder = photos(tmp_path, 2)
    for i in range(40):
        shutil.copy(folder / "a/11.png", folder / f"b/empty {i}.png")
    source = keep_copies_together(open_folder(folder, image_size=8))
    assert "41 of 68 samples are one and the same file" in source.notes
    assert np.bincount(source.groups[source.groups >= 0].numpy()).tolist() == [2] * 4
    assert source.notes[-1].startswith("4 samples are copies of others")


def test_without_copies_nothing_changes(tmp_path: Path) -> None:
    source = open_folder(photos(tmp_path, 0), image_size=8)
    assert keep_copies_together(source) is source


def test_connected_groups_go_from_one_key_to_another() -> None:
    first, second = np.array([0, 0, 1, 2, -1, 3]), np.array([5, 6, 6, -1, -1, 7])
    assert connected_groups(first, second).tolist() == [0, 0, 0, -1, -1, -1]
    assert connected_groups(np.arange(3), np.arange(3)) is None


def test_texts_that_are_the_same_but_for_case_and_blanks_are_one_group(tmp_path: Path) -> None:
    texts = ["A fine film", "a  fine FILM ", "another", "Another", "STRASSE", "straße", "a fine film!"]
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\n" + "".join(f"{text},{'ab'[i % 2]}\n" for i, text in enumerate(texts)))
    source = open_table(table)
    groups = source.groups
    assert groups is not None
    assert note_equal_texts(source) == [
        "3 samples are copies of others (texts that are equal but for case and blanks): copies are one group"
        ", and stay in one split"
    ]
    assert [groups[i].tolist() for i in (1, 3, 5)] == [groups[i].tolist() for i in (0, 2, 4)]
    assert len({int(group) for group in groups if group >= 0}) == 3
    assert int(groups[6]) == -1 or int(groups[6]) not in groups[:6].tolist()


@pytest.mark.parametrize(
    ("column", "values"), [("group", ["p", "q", "r", "r"]), ("split", ["train", "test", "train", "test"])]
)
def test_groups_of_other_origin_are_not_said_to_be_copies(
    tmp_path: Path, column: str, values: list[str]
) -> None:
    """Texts of different groups, or of given splits, stay apart where these say so."""
    table = tmp_path / "reviews.csv"
    texts = ["one", "two", "three", "four"] if column == "group" else ["one", "one", "two", "three"]
    rows = zip(texts, "abab", values, strict=True)
    table.write_text(f"text,label,{column}\n" + "".join(f"{','.join(row)}\n" for row in rows))
    assert note_equal_texts(open_table(table)) == []
