"""Renderings of ModelNet40 from miniatures in the layouts of their archives."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing

from labeltree.data import get_dataset, make_splits, open_source
from labeltree.errors import DataError

V1 = "{category}_{model:09}_{view:03}.jpg"
X12 = "{category}_{model:04}.obj.shaded_v{view:03}.png"
MODELS = (
    ("airplane", "train", 1),
    ("airplane", "train", 2),
    ("airplane", "test", 627),
    ("flower_pot", "train", 1),
)


@pytest.fixture
def write_views(tmp_path: Path, write_image: Callable[..., Path]) -> Callable[[str], Path]:
    """Three views of each model, with names in one of the two forms."""

    def write(form: str) -> Path:
        for category, part, model in MODELS:
            for view in range(1, 4):
                name = form.format(category=category, model=model, view=view)
                write_image(tmp_path / category / part / name, model * 10 + view, (12, 12), "L")
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("name", "form", "leaf"),
    [("modelnet40", V1, "airplane/airplane_000000627"), ("modelnet40-12x", X12, "airplane/airplane_0627")],
)
def test_reader(write_views: Callable[[str], Path], name: str, form: str, leaf: str) -> None:
    folder = write_views(form)
    source = open_source(name, data_path=folder, image_size=8)
    assert source.image_shape == (1, 8, 8)
    assert source.split.tolist() == ["train"] * 6 + ["test"] * 3 + ["train"] * 3
    labels = source.taxonomy.decode(source.nodes)
    assert labels[6:9] == [leaf] * 3
    assert labels[9].startswith("flower pot/flower_pot_0")
    assert check(name, folder) == ({"train": 9, "test": 3}, (2, 4), [])


def test_the_views_of_a_model_stay_together(write_views: Callable[[str], Path]) -> None:
    source = open_source("modelnet40", data_path=write_views(V1), image_size=8)
    assert source.groups is not None
    assert source.groups.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    split = make_splits(source, val=0.3).split
    assert sorted(set(zip(source.groups.tolist(), split.tolist(), strict=True))) == [
        (0, split[0]), (1, split[3]), (2, "test"), (3, split[9]),
    ]  # fmt: skip


def test_half_unpacked(write_views: Callable[[str], Path], cache_folder: Path) -> None:
    folder = write_views(V1)
    check_refuses_what_is_missing("modelnet40", folder, "airplane/train", "airplane/test")
    with pytest.raises(DataError, match=r"no folder '.*/modelnet40'\. .* from modelnet40v1\.tar"):
        open_source("modelnet40")
    below = cache_folder / "modelnet40" / "modelnet40v1"
    below.parent.mkdir()
    below.symlink_to(folder)
    assert len(open_source("modelnet40", image_size=8)) == 12


def test_published_counts() -> None:
    """The counts of supplement A: 22 seen and 18 unseen categories, training and validation and test."""
    published = get_dataset("modelnet40").published
    assert published is not None
    assert published.splits == {"train": 16_896 + 4_224 + 13_662 + 3_414, "test": 5_280 + 4_320}
    assert sum(published.splits.values()) == 12 * 3_983 == 12 * (3_183 + 800)
    assert published.classes == (40, 3_983)


def test_files_that_are_no_views(write_views: Callable[[str], Path]) -> None:
    folder = write_views(V1)
    (folder / "airplane" / "train" / ".DS_Store").write_bytes(b"x")
    (folder / "airplane" / "train" / "notes.txt").write_text("x", "utf-8")
    (folder / "readme.txt").write_text("x", "utf-8")
    (folder / "airplane" / "val").mkdir()
    assert len(open_source("modelnet40", data_path=folder, image_size=8)) == 12
    odd = folder / "airplane" / "train" / "contactsheet.jpg"
    odd.write_bytes(b"x")
    with pytest.raises(
        DataError, match=r"contactsheet\.jpg' is not named like a view, airplane_000000001_001\.jpg"
    ):
        open_source("modelnet40", data_path=folder, image_size=8)
    odd.rename(folder / "airplane" / "test" / "airplane_000000001_009.jpg")
    with pytest.raises(DataError, match="the model 'airplane_000000001' has views in train and test"):
        open_source("modelnet40", data_path=folder, image_size=8)


def test_a_view_that_is_broken(write_views: Callable[[str], Path]) -> None:
    folder = write_views(V1)
    file = folder / "airplane" / "train" / "airplane_000000002_002.jpg"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DataError, match=r"1 of 12 images cannot be read: '.*airplane_000000002_002\.jpg'"):
        open_source("modelnet40", data_path=folder, image_size=8)
    assert len(open_source("modelnet40", data_path=folder, image_size=8, on_error="skip")) == 11
