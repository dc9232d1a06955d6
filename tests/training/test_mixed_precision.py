"""Mixed precision: what is computed in half of it, and what in float32 all the same."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import by_itself
import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn

from labeltree.losses import ImageTextLoss
from labeltree.models import KeyQueue
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.registry import list_objectives
from sweeps import some_now

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("c",)])
NEED_MORE = {"devise", "guided", "image-text"}  # word vectors; a class embedding of its own; two modalities
HAVE_LAYERS = {"label-embedding", "cls"}  # these losses have linear layers, which compute in half precision
OBJECTIVES = [entry.name for entry in list_objectives() if entry.name not in NEED_MORE]


def as_float(value: Any) -> Any:
    if isinstance(value, list):
        return [as_float(one) for one in value]
    half = isinstance(value, Tensor) and value.is_floating_point()
    return value.detach().float() if half else value


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_contrast_of_images_with_texts_is_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    loss = ImageTextLoss(TREE)
    images, texts = (torch.randn(12, 16).to(dtype).requires_grad_() for _ in range(2))
    nodes, instances = TREE.leaves[torch.arange(12) % len(TREE.leaves)], torch.arange(12)
    with torch.autocast("cpu", dtype):
        value = loss(images, texts, nodes, nodes, instances, instances)
    assert value.dtype == torch.float32
    expected = loss(images.detach().float(), texts.detach().float(), nodes, nodes, instances, instances)
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)
    value.backward()
    assert images.grad is not None


@pytest.mark.parametrize("dtype", some_now([torch.bfloat16, torch.float16]))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_loss_is_float32(name: str, dtype: torch.dtype, recipe_of: Callable[..., Recipe]) -> None:
    """What an objective gives its loss may be half precision; the loss is what it is without autocast."""
    torch.manual_seed(0)
    objective = Objective(recipe_of(name), TREE, 16)
    features = (torch.randn(24, 16) * 4).to(dtype)
    nodes = TREE.leaves[torch.arange(24) % len(TREE.leaves)]
    objective.observe_labels(nodes)
    extra: dict[str, Any] = {}
    if objective.needs_keys:
        queue = KeyQueue(16, objective.dim)
        queue.enqueue(
            nn.functional.normalize(torch.randn(16, objective.dim), dim=1), nodes[:16], torch.arange(16)
        )
        extra = {
            "keys": objective.embed(features.float() + 1)[:12].detach(),
            "queue": queue,
            "num_queries": 12,
        }
    loss = objective.terms[name].loss
    before = copy.deepcopy(loss)
    given: dict[str, Any] = {}
    loss.register_forward_pre_hook(lambda module, args, kwargs: given.update(kwargs), with_kwargs=True)
    with torch.autocast("cpu", dtype):
        value = objective(features.requires_grad_(), nodes, torch.arange(24) % 12, **extra)[name]
    assert value.dtype == torch.float32
    expected = before(**{key: as_float(one) for key, one in given.items()})
    tolerance = 1e-3 if name in HAVE_LAYERS else 1e-6
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance)
    value.backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


@pytest.fixture
def half_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """float16 with scaled gradients, which Lightning has for GPUs alone."""
    trainer = L.Trainer

    def make(*, precision: str, plugins: Any = (), **settings: Any) -> L.Trainer:
        assert precision == "16-mixed"
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)  # too much: the first steps are skipped
        return trainer(plugins=[*plugins, MixedPrecision("16-mixed", "cpu", scaler)], **settings)

    monkeypatch.setattr(L, "Trainer", make)


class Stop(Callback):
    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step == 6:
            raise KeyError("stop")


@pytest.mark.usefixtures("half_on_a_cpu")
@pytest.mark.parametrize("chunk", some_now([6, None]))
def test_float16_scales_gradients_and_resumes(
    chunk: int | None, tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    given = {} if chunk is None else {"encode_chunk": chunk, "encoder": by_itself.NAME}
    common = {"precision": "16", "epochs": 3, "image_size": 16, "optimizer__clip_norm": 1.0, "ema": 0.5}
    recipe = recipe_of("hwc+lam", **common, **given)
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    with pytest.raises(KeyError, match="stop"):
        train(recipe, tmp_path / "again", callbacks=[Stop()], progress_bar=False, every_n_steps=1)
    again = train(recipe, tmp_path / "again", progress_bar=False)
    state = torch.load(folder.last_checkpoint, weights_only=True)
    steps = state["global_step"]
    assert 2.0 ** (16 - steps / 2) < state["MixedPrecision"]["scale"] < 2.0**16  # some steps were skipped
    assert state["MixedPrecision"] == torch.load(again.last_checkpoint, weights_only=True)["MixedPrecision"]
    weights = folder.load_weights()
    assert all(value.isfinite().all() for value in weights.values())
    assert all(torch.equal(value, again.load_weights()[name]) for name, value in weights.items())
    start = prepare(recipe).module.encoder.state_dict()
    moved = [float((weights[f"encoder.{n}"] - v).abs().max()) for n, v in start.items() if v.ndim >= 2]
    assert min(moved) > 1e-4


def test_float16_is_refused_without_a_gpu(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match="precision is '16', which a CPU does not have; take 'bf16' or '32'"):
        train(recipe_of("supcon", precision="16"), tmp_path / "run", progress_bar=False)
    assert not RunFolder(tmp_path / "run").path.exists()
