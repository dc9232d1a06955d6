"""Losses print all their settings, and take a geometry by its name."""

import inspect
from pathlib import Path

import pytest
import torch
from slow_losses import even_tree, random_batch
from torch import nn

import labeltree.losses
from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere, as_geometry
from labeltree.losses import (
    DeViSELoss,
    GuidedPrototypeLoss,
    HierCOSLoss,
    HiMulConELoss,
    HWCLoss,
    LevelAwareMarginLoss,
    MaskConLoss,
    MLCLLoss,
    NodePrototypes,
    RelationLoss,
    SelfConLoss,
    SupConLoss,
    relation_loss,
)
from labeltree.metrics import functional

TREE = even_tree(2, 2)
Z, NODES, INSTANCES = random_batch(TREE, 0)

LOSSES = [
    found
    for found in vars(labeltree.losses).values()
    if inspect.isclass(found) and issubclass(found, nn.Module)
]
GIVEN = {
    "taxonomy": TREE,
    "dim": 3,
    "feature_dim": 5,
    "geometry": Sphere(),
    "temperature": 0.37,
    "target_temperature": 0.21,
    "w": 0.625,
    "exclude_self": "negative",
}


def made(loss: type[nn.Module], folder: Path) -> nn.Module:
    if loss is RelationLoss:
        return RelationLoss(TREE, SupConLoss(TREE).table, temperature=0.37)
    wanted = inspect.signature(loss).parameters
    given = {name: value for name, value in GIVEN.items() if name in wanted}
    if loss is HierCOSLoss:
        given["dim"] = len(TREE) - 1
    if loss is DeViSELoss:
        (folder / "vectors.txt").write_text("".join(f"{name} {i} 1 0\n" for i, name in enumerate(TREE.names)))
        given |= {"vectors": str(folder / "vectors.txt")}
    return loss(**given)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", [c for c in LOSSES if c is not MLCLLoss], ids=lambda c: c.__name__)
def test_every_setting_is_printed(loss: type[nn.Module], tmp_path: Path) -> None:
    printed = repr(made(loss, tmp_path))
    for name in inspect.signature(loss).parameters:
        if name not in ("taxonomy", "table", "space"):
            assert f"{name}=" in printed or f"({name}): " in printed, printed
    for name, value in GIVEN.items():
        if name in inspect.signature(loss).parameters and isinstance(value, float):
            assert f"{name}={value}" in printed


def test_what_is_printed_is_what_is_set() -> None:
    printed = repr(HWCLoss(TREE, 0.25, 0.75, geometry=PoincareBall(curvature=-0.5), omega_max=3.0))
    assert printed == (
        "HWCLoss(alpha=0.25, gamma=0.75, temperature=0.1, similarity=distance, "
        "geometry=poincare(curvature=-0.5), reduction=pairs, rho=max_depth, positives=same, control=None, "
        "omega_max=3, undecided=ignore)"
    )
    assert "weights=[0.5, 2]" in repr(HiMulConELoss(TREE, [0.5, 2.0]))
    loss = SupConLoss(TREE)
    loss.temperature = 0.5  # a schedule moves it
    assert "temperature=0.5" in repr(loss)


@pytest.mark.parametrize("space", [Sphere(), Euclidean(), PoincareBall()], ids=lambda g: g.name)
def test_a_geometry_by_its_name(space: Geometry) -> None:
    z = 0.1 * Z
    for make in (
        lambda g: HWCLoss(TREE, geometry=g)(z, NODES, INSTANCES),
        lambda g: HiMulConELoss(TREE, geometry=g)(z, NODES, INSTANCES),
        lambda g: MLCLLoss(TREE, geometry=g)([z, z], NODES, INSTANCES),
        lambda g: LevelAwareMarginLoss(even_tree(2, 2, 2), z.shape[1], geometry=g)(z, NODES),
        lambda g: functional.recall_at_k(z, NODES, geometry=g)[1],
        lambda g: functional.pair_violations(z, NODES, TREE, g),
        lambda g: functional.class_prototypes(z, NODES, TREE, g).nansum(),
        lambda g: functional.retrieval_metrics(z, NODES, TREE, geometry=g)["map"],
    ):
        assert torch.equal(make(space.name), make(space))
    guided = GuidedPrototypeLoss(TREE, 4, geometry=space.name)
    assert guided.geometry == space
    assert NodePrototypes(TREE, 4, space.name).geometry == space
    assert as_geometry(space.name) == space


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ("poincaré", "geometry is 'poincaré'; expected one of .* did you mean 'poincare'"),
        (PoincareBall, "geometry is the class PoincareBall; .*such as PoincareBall"),
        (-1.0, "geometry is -1.0; expected one of 'sphere', 'euclidean', 'poincare'"),
    ],
)
def test_no_geometry(geometry: object, message: str) -> None:
    loss = SupConLoss(TREE)
    relation = loss.relation(len(Z), NODES, INSTANCES, Z.device)
    for make in (
        lambda: HWCLoss(TREE, geometry=geometry),
        lambda: MLCLLoss(TREE, geometry=geometry),
        lambda: GuidedPrototypeLoss(TREE, 3, geometry=geometry),
        lambda: LevelAwareMarginLoss(TREE, 3, geometry=geometry),
        lambda: MaskConLoss(TREE, geometry=geometry),
        lambda: relation_loss(Z, relation, loss.table, geometry=geometry),
        lambda: functional.map_at_r(Z, NODES, geometry=geometry),
        lambda: functional.parent_violations(Z, NODES, TREE, torch.zeros(7, 4), geometry=geometry),
        lambda: functional.nearest_neighbour_labels(Z, Z, NODES, ks=(1,), geometry=geometry),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_losses_over_a_queue_know_the_sphere_alone() -> None:
    assert isinstance(SelfConLoss(geometry="sphere").geometry, Sphere)
    with pytest.raises(ValueError, match=r"SelfConLoss .* knows the sphere alone, not geometry 'poincare'"):
        SelfConLoss(geometry="poincare")
