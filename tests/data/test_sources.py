"""Sources and stores: what a subset keeps, what a pickle holds, and what does not fit together."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.data import ArrayStore, MappedStore, Source, ViewGenerator, channel_statistics, open_source
from labeltree.data.images.stores import ChainedStore, reshaped
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/b", "a/c", "d"])


def images(n, c=None, size=6, seed=0):
    shape = (n, size, size) if c is None else (n, c, size, size)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def source_of(n=6, **columns):
    given = {
        "nodes": torch.arange(n) % TREE.num_nodes,
        "instances": torch.arange(n) * 10,
        "store": ArrayStore(images(n)),
        "rows": torch.arange(n),
    }
    return Source(name="made", taxonomy=TREE, **(given | columns))


def test_subset_keeps_instances_groups_splits_and_files():
    source = source_of(
        groups=torch.tensor([0, 0, 1, 1, -1, -1]),
        split=np.array(["train", "val", "test"] * 2),
        files=[f"{i}.png" for i in range(6)],
    )
    part = source.subset(torch.tensor([5, 0, 3])).subset([0, 2])
    assert part.instances.tolist() == [50, 30]
    assert part.nodes.tolist() == [0, 3]
    assert part.groups.tolist() == [-1, 1]
    assert part.split.tolist() == ["test", "train"]
    assert part.paths([1, 0]) == ["3.png", "5.png"]
    assert torch.equal(part.load([1]), source.load([3]))
    assert source.of_split("val").instances.tolist() == [10, 40]
    assert len(source.subset([])) == 0
    assert source.subset([]).load([]).shape == (0, 1, 6, 6)


def test_aspects_and_ratings_go_with_the_samples():
    plain = source_of()
    assert (plain.aspect_taxonomies, plain.aspects, plain.ratings) == ((), None, None)
    stars = Taxonomy.from_paths([("1",), ("2",)])
    aspects = torch.stack([torch.tensor([0, 1, 2, 3, -1, 4]), torch.tensor([1, 2, -1, 1, 2, -1])], 1)
    ratings = torch.stack([torch.full((6,), -1), aspects[:, 1]], 1)
    both = {"aspect_taxonomies": (TREE, stars), "aspects": aspects, "ratings": ratings}
    source = source_of(**both, split=np.array(["train", "val", "test"] * 2))
    part = source.subset([5, 0])
    assert part.aspects.tolist() == [[4, -1], [0, 1]]
    assert part.ratings.tolist() == [[-1, -1], [-1, 1]]
    assert part.aspect_taxonomies == (TREE, stars)
    again = source.with_split(["val"] * 6).of_split("val")
    assert torch.equal(again.aspects, aspects)
    assert torch.equal(again.ratings, ratings)
    assert source.subset([]).aspects.shape == (0, 2)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"aspects": torch.zeros(5, 1).long()}, "aspects has 5 entries for 6 samples"),
        ({"aspects": torch.zeros(6, 2).long()}, r"aspects has shape \(6, 2\), expected \(6, 1\)"),
        ({"aspects": torch.zeros(6).long()}, r"aspects has shape \(6,\), expected \(6, 1\)"),
        (
            {"aspects": torch.full((6, 1), 9)},
            r"aspects\[:, 0\] run from 9 to 9, but the taxonomy has 5 nodes",
        ),
        ({"aspects": None}, "has 1 aspect_taxonomies but no aspects"),
        ({"aspect_taxonomies": ()}, "has 0 aspect_taxonomies but some aspects"),
        ({"ratings": torch.zeros(6).long()}, r"ratings has shape \(6,\), expected a column each"),
        ({"ratings": torch.full((6, 1), -2)}, "ratings hold -2, expected 0 or more, or -1"),
    ],
)
def test_aspects_must_fit(columns, sentence):
    given = {"aspect_taxonomies": (TREE,), "aspects": torch.zeros(6, 1, dtype=torch.int64)}
    with pytest.raises(DataError, match=sentence):
        source_of(**(given | columns))


def test_columns_must_fit():
    with pytest.raises(DataError, match="instances has 5 entries for 6 samples"):
        source_of(instances=torch.arange(5))
    with pytest.raises(DataError, match=f"nodes run from 0 to 99.* has {TREE.num_nodes} nodes"):
        source_of(nodes=torch.tensor([0, 99, 1, 1, 1, 1]))
    with pytest.raises(DataError, match="has no splits yet"):
        source_of().of_split("train")
    with pytest.raises(DataError, match="split is 'dev'"):
        source_of(split=np.array(["train"] * 6)).of_split("dev")
    assert source_of().paths([0]) == []


def test_mapped_images_are_read_from_the_file_and_not_pickled(tmp_path):
    array = images(1000, 3)
    (tmp_path / "x.bin").write_bytes(b"head" + array.tobytes())
    store = MappedStore(tmp_path / "x.bin", array.shape, offset=4)
    rows = torch.tensor([3, 999, 3])
    assert np.array_equal(store.load(rows).numpy(), array[rows.numpy()])
    dumped = pickle.dumps(store)
    assert len(dumped) < 1000
    assert torch.equal(pickle.loads(dumped).load(rows), store.load(rows))
    loaded = store.load(rows)
    loaded.zero_()  # a batch is the caller's own
    assert np.array_equal(store.load(rows).numpy(), array[rows.numpy()])


def test_no_images_at_all(tmp_path):
    (tmp_path / "x.bin").touch()
    assert MappedStore(tmp_path / "x.bin", (0, 3, 4, 4)).load(torch.arange(0)).shape == (0, 3, 4, 4)


def test_chained_stores():
    first, second = images(4), images(3, seed=1)
    chained = ChainedStore([ArrayStore(first), ArrayStore(second)])
    assert len(chained) == 7
    rows = torch.tensor([6, 0, 4, 3, 6])
    both = np.concatenate([first, second])[:, None]
    assert np.array_equal(chained.load(rows).numpy(), both[rows.numpy()])
    with pytest.raises(DataError, match="different shapes"):
        ChainedStore([ArrayStore(first), ArrayStore(images(2, size=5))])


def test_reshaped_stores():
    store = ArrayStore(images(5, 3, 8))
    assert reshaped(store, None, None) is store
    assert reshaped(store, 8, 3) is store
    small = reshaped(store, 4, 1)
    assert small.image_shape == (1, 4, 4)
    plain = ViewGenerator("identity", size=4, channels=1)(store.load(torch.arange(5)), torch.arange(5))
    assert torch.equal(small.load(torch.arange(5)), (plain * 255).round().to(torch.uint8))


@pytest.mark.parametrize("array", [np.zeros((2, 3), np.uint8), np.zeros((2, 3, 3), np.float32)])
def test_arrays_must_be_images(array):
    with pytest.raises(DataError, match="must be uint8"):
        ArrayStore(array)


def test_channel_statistics():
    array = images(300, 3)
    array[:, 2] = 51
    source = source_of(
        300, nodes=torch.zeros(300, dtype=torch.int64), store=ArrayStore(array), instances=torch.arange(300)
    )
    mean, std = channel_statistics(source)
    assert mean == pytest.approx((array / 255).mean((0, 2, 3)))
    assert std == pytest.approx((*(array[:, :2] / 255).std((0, 2, 3)), 1.0))
    views = ViewGenerator("identity", mean=mean, std=std)(source.load(range(300)), source.instances)
    assert views.mean((0, 2, 3)).abs().max() < 1e-5
    few, _ = channel_statistics(source, samples=2)
    assert few == pytest.approx((array[[0, 299]] / 255).mean((0, 2, 3)))
    with pytest.raises(DataError, match="has no samples"):
        channel_statistics(source.subset([]))


def test_columns_are_for_tables(tmp_path):
    with pytest.raises(DataError, match="is a folder and has no columns; leave aspect_columns out"):
        open_source(tmp_path, aspect_columns=["stars"])
    with pytest.raises(DataError, match="'fashion-mnist' is a data set and has no columns"):
        open_source("fashion-mnist", label_columns=["label"])


def test_settings_of_a_table_as_one_mapping(tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("title,kind\nbarks at night,a;b\npurrs all day,a\n")
    settings = {"text_column": "title", "label_columns": ["kind"], "label_separator": ";"}
    source = open_source(file, table=settings)
    assert source.columns["texts"] == ("title",)
    assert source.label_sets is not None
    with pytest.raises(TypeError, match="unknown setting 'txt_column' of table; did you mean 'text_column'"):
        open_source(file, table={"txt_column": "title"})
    with pytest.raises(ValueError, match="text_column is given both in table and beside it"):
        open_source(file, table=settings, text_column="title")
    with pytest.raises(TypeError, match="expected the settings of the table"):
        open_source(file, table="title")  # type: ignore[arg-type]
