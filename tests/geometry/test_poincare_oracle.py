"""The Poincaré ball against figures computed with 60 decimal digits."""

import json
from pathlib import Path

import pytest
import torch

from labeltree.geometry import PoincareBall

CASES = json.loads((Path(__file__).parent / "oracles" / "poincare.json").read_text(encoding="utf-8"))["cases"]


def cases(kind):
    return [
        pytest.param(c["inputs"], c["expected"], id=label(c["inputs"]))
        for c in CASES
        if c["inputs"]["kind"] == kind
    ]


def label(inputs):
    parts = [inputs.get(key) for key in ("tag", "init_name", "eta", "curvature")]
    return "-".join(str(part) for part in parts if part is not None)


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


def ball(inputs, **options):
    return PoincareBall(inputs["curvature"], eps=1e-12, **options)


def close(actual, expected, rtol):
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=0.0)


# 1 − c|x|² of the given float64 points is itself only this exact near the boundary
DISTANCE_RTOL = {"interior": 1e-12, "near_boundary": 2e-12, "close_or_equal": 1e-12}
GRADIENT_RTOL = {"interior": 1e-12, "near_boundary": 2e-11, "close_or_equal": 1e-12}


@pytest.mark.parametrize(("inputs", "expected"), cases("distance"))
def test_distance_and_its_gradient(inputs, expected):
    u, v = float64(inputs["u"]).requires_grad_(), float64(inputs["v"])
    distance = ball(inputs).distance(u, v)
    close(distance.detach(), float64(expected["standard"]), DISTANCE_RTOL[inputs["tag"]])
    distance.sum().backward()
    gradient = [row or [0.0] * u.shape[1] for row in expected["grad_u_standard"]]
    close(u.grad, float64(gradient), GRADIENT_RTOL[inputs["tag"]])


@pytest.mark.parametrize(("inputs", "expected"), cases("distance"))
def test_unscaled_distance_is_equation_2(inputs, expected):
    distance = ball(inputs, scaled=False).distance(float64(inputs["u"]), float64(inputs["v"]))
    close(distance, float64(expected["paper_eq2"]), DISTANCE_RTOL[inputs["tag"]])


@pytest.mark.parametrize(("inputs", "expected"), cases("distance"))
def test_pairwise_distance_and_its_gradient(inputs, expected):
    u, v = float64(inputs["u"]).requires_grad_(), float64(inputs["v"])
    distance = ball(inputs).pairwise_distance(u, v).diagonal()
    close(distance.detach(), float64(expected["standard"]), DISTANCE_RTOL[inputs["tag"]])
    distance.sum().backward()
    gradient = float64([row or [0.0] * u.shape[1] for row in expected["grad_u_standard"]])
    if inputs["tag"] == "close_or_equal":  # differences of 1e-9 lose digits in the sums over pairs
        torch.testing.assert_close(u.grad, gradient, rtol=1e-7, atol=1e-7)
    else:
        close(u.grad, gradient, GRADIENT_RTOL[inputs["tag"]])


@pytest.mark.parametrize(("inputs", "expected"), cases("expmap"))
def test_exp(inputs, expected):
    point = ball(inputs).exp(float64(inputs["base"]), float64(inputs["tangent"]))
    close(point, float64(expected["point"]), 1e-12)


@pytest.mark.parametrize(("inputs", "expected"), cases("logmap"))
def test_log(inputs, expected):
    tangent = ball(inputs).log(float64(inputs["base"]), float64(inputs["point"]))
    close(tangent, float64(expected["tangent"]), 1e-12)


@pytest.mark.parametrize(("inputs", "expected"), cases("karcher_mean"))
def test_karcher_mean_step_by_step(inputs, expected):
    points, start = float64(inputs["points"]), float64(inputs["init"])
    for steps, point in enumerate(expected["after_each_step"], start=1):
        mean = ball(inputs, mean_step=inputs["beta"]).mean(points, steps=steps, init=start)
        close(mean, float64(point), 2e-12)


@pytest.mark.parametrize(("inputs", "expected"), cases("ema"))
def test_ema_of_prototypes(inputs, expected):
    points = float64(inputs["points"])
    groups = torch.zeros(len(points), dtype=torch.long)
    old = float64(inputs["previous"])[None]
    moved = ball(inputs).ema_groups(old, points, groups, inputs["eta"])
    close(moved[0], float64(expected["updated"]), 1e-12)
    assert inputs["eta"] == 0.0 or not torch.equal(moved, old)
