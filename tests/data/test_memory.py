"""Views keep nothing: no tensor lives on after its batch, and a batch is worked on in parts."""

from __future__ import annotations

import gc
import tracemalloc
from typing import get_args

import pytest
import torch

from labeltree.data import ArrayStore, Source, ViewGenerator
from labeltree.data.views import randaugment
from labeltree.data.views import view_recipes as views_module
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

RECIPES = get_args(views_module.RecipeName)


def pictures(n: int, c: int = 3, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, c, size, size), dtype=torch.uint8, generator=generator)


@pytest.fixture(scope="module")
def source() -> Source:
    tree = Taxonomy.from_paths(["a/x", "a/y", "b"])
    rows = torch.arange(96)
    return Source("pictures", tree, tree.leaves[rows % 3], rows, ArrayStore(pictures(96)), rows)


def tensors_alive() -> int:
    gc.collect()
    return sum(type(entry) is torch.Tensor for entry in gc.get_objects())


@pytest.mark.parametrize("recipe", RECIPES)
def test_epochs_of_views_leave_no_tensors_behind(recipe: str, source: Source) -> None:
    views = ViewGenerator(recipe, erasing=0.3, mean=(0.5,) * 3, std=(0.2,) * 3)  # type: ignore[arg-type]

    def epoch(number: int) -> None:
        for index in torch.arange(96).split(32):
            for view in range(2):
                views(source.load(index), source.instances[index], number, view)

    for number in range(3):  # RandAugment's few grids are made when they are drawn first
        epoch(number)
    before = tensors_alive()
    tracemalloc.start()
    try:
        epoch(3)
        gc.collect()
        start, _ = tracemalloc.get_traced_memory()
        for number in range(4, 8):
            epoch(number)
        gc.collect()
        end, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tensors_alive() - before <= 10
    assert end - start < 64 * 1024


def test_grids_that_are_kept_are_few() -> None:
    """Whatever shapes and magnitudes come by."""
    for magnitude in range(1, 31):
        views = ViewGenerator("randaugment", operations=3, magnitude=magnitude)
        views(pictures(40, 1, 6 + magnitude % 5), torch.arange(40), magnitude)
    kept = randaugment._grid.cache_info()
    assert 0 < kept.currsize <= kept.maxsize == 64  # type: ignore[operator]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("size", [None, 24])
def test_parts_of_a_batch_give_what_the_whole_gives(
    recipe: str, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, instances = pictures(50), torch.arange(50) * 7
    views = ViewGenerator(recipe, size=size, seed=3, erasing=0.4)  # type: ignore[arg-type]
    whole = views(images, instances, 1, 1)
    for values in (1, 3 * 24 * 24 * 7, 1 << 40):
        monkeypatch.setattr(views_module, "_PART", values)
        assert torch.equal(views(images, instances, 1, 1), whole)


def test_images_are_left_as_they_were() -> None:
    images = pictures(20)
    copy = images.clone()
    for recipe in RECIPES:
        ViewGenerator(recipe, erasing=1.0, mean=(0.1,) * 3)(images, torch.arange(20))
    assert torch.equal(images, copy)
