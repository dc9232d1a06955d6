"""Geometries by name, and the parameters they refuse."""

import pytest

from labeltree.geometry import Euclidean, PoincareBall, Sphere, get_geometry


def test_names():
    assert get_geometry("sphere") == Sphere()
    assert get_geometry("euclidean", curvature=-3.0) == Euclidean()
    assert get_geometry("poincare", curvature=-3.0) == PoincareBall(-3.0)
    for name in ("sphere", "euclidean", "poincare"):
        assert get_geometry(name).name == name


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(
        ValueError, match=r"geometry is 'Poincaré'; expected one of .*did you mean 'poincare'"
    ):
        get_geometry("Poincaré")
    with pytest.raises(ValueError, match=r"expected one of 'sphere', 'euclidean', 'poincare'$"):
        get_geometry("xyz")


@pytest.mark.parametrize("curvature", [0.0, 1.0, float("nan"), -float("inf")])
def test_curvature_must_lie_below_0(curvature):
    with pytest.raises(ValueError, match=f"curvature is {curvature}; expected a number below 0"):
        get_geometry("poincare", curvature=curvature)


@pytest.mark.parametrize(
    "options",
    [{"eps": 0.0}, {"eps": 1.0}, {"max_tangent_norm": 0.0}, {"mean_step": 0.0}, {"mean_step": 1.5}],
    ids=str,
)
def test_other_parameters_are_checked(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} is {value}; expected"):
        PoincareBall(**options)
