"""A setting that nothing would read is refused: whoever gives it expects it to matter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labeltree.cli.main import main
from labeltree.taxonomy import Taxonomy
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d",)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"projection": "odir"}, "projection is odir, which has no effect without train_taxonomy"),
        ({"inner": "drop"}, "inner is drop, which has no effect while inner_share is 0; leave it at keep"),
        ({"optimizer__nesterov": "true"}, "optimizer.nesterov is True, .* while optimizer.name is 'adamw'"),
        ({"optimizer__milestones": "[3]"}, "optimizer.milestones is .* while optimizer.schedule is 'cosine'"),
        ({"optimizer__cycle_epochs": 3}, "optimizer.cycle_epochs is 3, which has no effect"),
        ({"optimizer__schedule": "step"}, "optimizer.milestones must say at which epochs"),
        ({"devices": 0}, "devices is 0; it must be 1 or more"),
        ({"term_weights": "[-1]"}, r"term_weights is \[-1.0\]; it must be numbers of 0 or more"),
        ({"optimizer__clip_norm": 0}, "optimizer.clip_norm is 0.0; it must be above 0"),
        ({"optimizer__schedule": "sgdr", "optimizer__min_lr": 1}, "from 0 to the learning rate, 0.003"),
        ({"head__layers": 0}, "head.layers is 0; it must be 1 or more"),
        ({"erasing": 2}, "erasing is 2.0; it must be a probability"),
    ],
)
def test_recipe_by_itself(settings: dict[str, Any], message: str, recipe_of: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match=message):
        recipe_of("supcon", **settings)


@pytest.mark.parametrize(
    ("objective", "settings", "message"),
    [
        ("supcon", {"queue__size": 5}, "queue.size is 5, which has no effect for objective 'supcon', which"),
        ("ce", {"head__dim": 7}, "head.dim is 7, .* reads features and has no projection head"),
        ("ce", {"head__layers": 3}, "head.layers is 3, .* reads features and has no projection head"),
        ("maskcon", {"num_views": 2}, "num_views is 2, .* learns from the first view"),
        ("corr", {"geometry": "poincare"}, "objective 'corr' supports only the sphere"),
        ("maskcon", {"geometry": "poincare"}, "knows the sphere alone"),
        ("supcon", {"supcon__reduction": "none"}, "supcon.reduction is 'none', .* training needs one"),
        ("hwc+lam", {"term_weights": "[0,0]"}, "term_weights are all 0"),
        ("hwc+lam", {"term_weights": "[1]"}, "has 1 numbers, but objective 'hwc\\+lam' has 2"),
    ],
)
def test_with_an_objective(
    objective: str, settings: dict[str, Any], message: str, recipe_of: Callable[..., Recipe]
) -> None:
    with pytest.raises(ValueError, match=message):
        Objective(recipe_of(objective, **settings), TREE, 8)


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("maskcon+supcon", {"num_views": 2, "queue__size": 5}),
        ("mlcl", {"head__dim": 7}),
        ("ce", {"head__layers": 2}),  # as runs of earlier versions recorded
        ("ce+lam", {"head__dim": 7, "geometry": "poincare"}),
        ("devise+ce", {"geometry": "sphere"}),
        ("hwc+lam", {"term_weights": "[0,0]", "schedules": '{"weights.hwc": [[0, 1]]}'}),
    ],
)
def test_what_some_term_reads_is_taken(
    objective: str, settings: dict[str, Any], recipe_of: Callable[..., Recipe], tmp_path: Path
) -> None:
    if "devise" in objective:
        (tmp_path / "vectors.txt").write_text("b 1 0\nc 0 1\nd 1 1\n")
        settings = {**settings, "devise__vectors": str(tmp_path / "vectors.txt")}
    Objective(recipe_of(objective, **settings), TREE, 8)


def test_aspects_that_no_loss_reads(image_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(image_folder.rglob("*.png"))
    rows = "\n".join(f"{f.relative_to(image_folder)},{f.parent.name},{i % 3}" for i, f in enumerate(files))
    table = image_folder / "idle-aspects.csv"
    table.write_text(f"image,label,stars\n{rows}\n")
    try:
        words = ["train", "--data", str(table), "--objective", "ce", "--table.aspect-columns", "[stars]"]
        assert main(words) == 2
    finally:
        table.unlink()
    assert "for objective 'ce', which reads no aspects" in capsys.readouterr().err
