"""Values and gradients equal figures that were computed elsewhere, to 1e-9 relative in float64."""

import json
from pathlib import Path

import pytest
import torch

from labeltree.geometry import Euclidean, PoincareBall, Sphere
from labeltree.losses import (
    HiConELoss,
    HiMulConELoss,
    HiMulConLoss,
    HWCLoss,
    LevelAwareMarginLoss,
    NTXentLoss,
    SupConLoss,
    WeightedSupConLoss,
    mean_omega,
)
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "oracles"


def cases(name):
    found = json.loads((FOLDER / f"{name}.json").read_text())["cases"]
    return pytest.mark.parametrize(
        ("given", "expected"), [(case["inputs"], case["expected"]) for case in found]
    )


def close(got, expected):
    expected = torch.tensor(expected, dtype=torch.float64)
    error = (got.detach() - expected).abs().max()
    assert error <= 1e-9 * expected.abs().max() + 1e-15  # where 0 is expected: but for rounding


def check(loss, z, nodes, instances, expected):
    z = z.clone().requires_grad_()
    value = loss(z, nodes, instances)
    close(value, expected["loss"])
    if "grad" in expected:
        value.backward()
        close(z.grad, expected["grad"])


def edges(parent):
    return Taxonomy.from_edges([(child, above) for child, above in parent.items() if above is not None])


def columns(rows):
    """The tree of label columns (coarse → fine), children in numeric order, and the rows as nodes."""
    tree = Taxonomy.from_paths([tuple(map(str, row)) for row in sorted(set(map(tuple, rows)))])
    return tree, tree.encode([tuple(map(str, row)) for row in rows])


@cases("supcon")
def test_supcon_and_ntxent(given, expected):
    z, tau = torch.tensor(given["z"], dtype=torch.float64), given["tau"]
    instances = torch.tensor(given["instance"])
    tree, nodes = columns([[label] for label in given["labels"] or [0]])
    nodes = None if given["labels"] is None else nodes
    for reduction in {"valid", "all", "sum"} & set(expected):
        check(SupConLoss(tree, tau, reduction=reduction), z, nodes, instances, expected[reduction])
    if "ntxent" in expected:
        check(NTXentLoss(tau), z, nodes, instances, expected["ntxent"])


@cases("himulcon_paper")
def test_himulcon_of_the_paper(given, expected):
    z = torch.tensor(given["z"], dtype=torch.float64)
    tree, nodes = columns(given["labels"])
    instances = torch.arange(len(z) // given["n_views"]).repeat(given["n_views"])
    weights, tau = given["lambda_coarse_to_fine"], given["tau"]
    for name, figures in expected.items():
        how = {"positives": "exact" if "exact" in name else "nested"}
        if name.startswith("himulcon_"):
            loss = HiMulConLoss(tree, weights, tau, **how)
        elif name.startswith("hicone"):
            loss = HiConELoss(tree, tau, **how, variant="paper")
        else:
            loss = HiMulConELoss(tree, weights, tau, **how, variant="paper")
        check(loss, z, nodes, instances, figures)
        if "grad_detached_max" in figures:
            loss = HiMulConELoss(tree, weights, tau, detach_bound=True, **how, variant="paper")
            check(loss, z, nodes, instances, {**figures, "grad": figures["grad_detached_max"]})


@cases("himulcon_official")
@pytest.mark.parametrize("order", ["image by image", "view by view"])
def test_himulcon_of_the_published_code(given, expected, order):
    tree, nodes = columns([row[:-1] for row in given["labels"]])
    z = torch.tensor(given["z"], dtype=torch.float64)
    images, views, _ = z.shape
    instances = torch.arange(images) * 5 % 97  # ids are names, not an order
    by_view = order == "view by view"

    def rows(x):
        return (x.transpose(0, 1) if by_view else x).reshape(images * views, -1)

    def spread(ids):
        return ids.repeat(views) if by_view else ids.repeat_interleave(views)

    losses = {
        "hmc": HiMulConLoss(tree, temperature=given["tau"], variant="reference"),
        "hce": HiConELoss(tree, given["tau"], variant="reference"),
        "hmce": HiMulConELoss(tree, temperature=given["tau"], variant="reference"),
    }
    for name, loss in losses.items():
        grad = rows(torch.tensor(expected[name]["grad"], dtype=torch.float64)).tolist()
        figures = {"loss": expected[name]["loss"], "grad": grad}
        check(loss, rows(z), spread(nodes), spread(instances), figures)


@cases("hwc")
def test_hwc(given, expected):
    tree = edges(given["parent"])
    z, nodes = torch.tensor(given["z"], dtype=torch.float64), tree.encode(given["leaf"])
    instances = torch.tensor(given["instance"])
    ball = given["similarity"] == "poincare"
    space = {
        "temperature": given["tau"],
        "geometry": PoincareBall(given["curvature"]) if ball else Sphere(),
        "similarity": "cosine" if given["similarity"] == "cosine" else "distance",
    }
    weights = {"alpha": given["alpha"], "gamma": given["gamma"]}
    for name, reduction in (("pairs", "pairs"), ("anchors", "valid")):
        how = {**space, "reduction": reduction}
        losses = {
            name: HWCLoss(tree, **weights, **how),
            f"constant_omega_{name}": HWCLoss(tree, **weights, control="constant_omega", **how),
            f"supcon_{name}": HWCLoss(tree, 0.0, 0.0, **how),
            f"{name}_same_leaf_rho_1": HWCLoss(tree, **weights, rho="same_one", **how),
        }
        if given["alpha"] > 0:  # at 0 it would be SupCon, and is refused
            losses[f"outside_softmax_{name}"] = HWCLoss(tree, **weights, control="outside_softmax", **how)
        for key in set(losses) & set(expected):
            check(losses[key], z, nodes, instances, expected[key])
        plain = SupConLoss(tree, **how)
        check(plain, z, nodes, instances, expected[f"supcon_{name}"])
        outside = WeightedSupConLoss(tree, positives="same", alpha=given["alpha"], **how)
        check(outside, z, nodes, instances, expected[f"outside_softmax_{name}"])
    clamped = expected["clamped_pairs"]
    check(HWCLoss(tree, **weights, omega_max=clamped["omega_max"], **space), z, nodes, instances, clamped)
    loss = HWCLoss(tree, **weights, **space)
    relation = loss.relation(len(z), nodes, instances, z.device)
    close(mean_omega(loss.table, relation), expected["constant_omega_value"])
    if "views_only_no_labels" in expected:
        check(loss, z, None, instances, expected["views_only_no_labels"])
        views = HWCLoss(tree, **weights, positives="instance", **space)
        check(views, z, nodes, instances, expected["views_only_with_labels_pairs"])


@cases("lam")
def test_lam(given, expected):
    tree = edges(given["parent"])
    z, nodes = torch.tensor(given["z"], dtype=torch.float64), tree.encode(given["leaf"])
    ball = given["distance"] == "poincare"
    # the figures move prototypes by z as it is given, which the sphere would normalise first
    geometry = PoincareBall(given["curvature"]) if ball else Euclidean()

    def make(**options):
        loss = LevelAwareMarginLoss(
            tree,
            z.shape[1],
            margins=list(given["margin"].values()),
            weights=list(given["level_weight"].values()),
            eta=given["eta"],
            geometry=geometry,
            distance=given["distance"],
            **options,
        )
        return loss.double()

    def start(loss):
        for prototypes in given["prototypes"].values():
            for name, point in prototypes.items():
                loss.prototypes[tree.find(name)] = torch.tensor(point, dtype=torch.float64)
                loss.seen[tree.find(name)] = True
        return loss

    def follows(loss, levels):
        for prototypes in levels.values():
            for name, point in prototypes.items():
                close(loss.prototypes[tree.find(name)], point)

    after = start(make())
    check(after, z, nodes, None, expected)
    follows(after, expected["prototypes_after_ema"])
    before = start(make(update="before"))
    figures = {
        "loss": expected["loss_with_updated_prototypes"],
        "grad": expected["grad_with_updated_prototypes"],
    }
    check(before, z, nodes, None, figures)
    close(start(make(divisor="contributing"))(z, nodes), expected["contributing"])
    if "prototypes_from_first_batch" in expected:
        first = make()
        first(z, nodes)
        follows(first, expected["prototypes_from_first_batch"])
