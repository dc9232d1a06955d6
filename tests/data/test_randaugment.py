"""RandAugment's operations against slow references, and the draw of operations."""

import math

import pytest
import torch

from labeltree.data import counter_rng
from labeltree.data.views import randaugment
from labeltree.data.views.randaugment import OPERATIONS, RandAugment


def images(n=3, c=3, size=12):
    return torch.randint(0, 256, (n, c, size, size), generator=torch.Generator().manual_seed(4)) / 255


def test_posterize_and_solarize():
    x = images()
    posterized = randaugment._posterize(x, torch.tensor([0.0, 0.5, 1.0]))
    for row, kept in enumerate((8, 6, 4)):
        levels = (x[row] * 255).round().int() >> (8 - kept) << (8 - kept)
        torch.testing.assert_close(posterized[row] * 255, levels.float())
    solarized = randaugment._solarize(x, torch.tensor([0.0, 0.4, 1.0]))
    torch.testing.assert_close(solarized[0], torch.where(x[0] == 1, 0, x[0]))
    torch.testing.assert_close(solarized[1], torch.where(x[1] >= 0.6, 1 - x[1], x[1]))
    torch.testing.assert_close(solarized[2], 1 - x[2])


def test_autocontrast():
    x = 0.2 + 0.3 * images()
    x[2, 1] = 0.4
    found = randaugment._autocontrast(x, torch.zeros(3))
    for row in range(3):
        for channel in range(3):
            plane = x[row, channel]
            low, high = plane.min(), plane.max()
            expected = plane if low == high else (plane - low) / (high - low)
            torch.testing.assert_close(found[row, channel], expected)


@pytest.mark.parametrize("size", [12, 40])
def test_equalize(size):
    x = (images(2, 3, size) ** 2 * 255).round() / 255
    x[1, 2] = 7 / 255
    found = randaugment._equalize(x, torch.zeros(2))
    for row in range(2):
        for channel in range(3):
            values = (x[row, channel] * 255).round().int().flatten().tolist()
            counts = [values.count(v) for v in range(256)]
            step = (len(values) - counts[max(values)]) // 255
            table = [min(255, (sum(counts[:v]) + step // 2) // step) if step else v for v in range(256)]
            expected = torch.tensor([table[v] for v in values], dtype=torch.float32).view(size, size)
            torch.testing.assert_close(found[row, channel] * 255, expected)


def test_sharpness():
    x, amount = images(2, 1, 6), 0.5
    found = randaugment._sharpness(x, torch.tensor([amount, -amount]))
    for row, factor in enumerate((1 + 0.9 * amount, 1 - 0.9 * amount)):
        for i in range(6):
            for j in range(6):
                value = x[row, 0, i, j].item()
                if 0 < i < 5 and 0 < j < 5:
                    around = x[row, 0, i - 1 : i + 2, j - 1 : j + 2].sum().item()
                    smooth = (around + 4 * value) / 13
                    value = min(max(smooth + factor * (value - smooth), 0), 1)
                assert found[row, 0, i, j].item() == pytest.approx(value, abs=1e-6)


def test_geometric_operations_move_pixels_where_they_should():
    # One bright pixel, right of the centre; coordinates from -1 to 1.
    x = torch.zeros(1, 1, 41, 41)
    x[0, 0, 20, 30] = 1.0

    def place(operation, amount):
        result = operation(x, torch.tensor([amount]))[0, 0]
        total = result.sum()
        rows, columns = torch.arange(41.0), torch.arange(41.0)
        return (result.sum(1) @ rows / total - 20).item(), (result.sum(0) @ columns / total - 20).item()

    assert place(randaugment._rotate, 0.0) == pytest.approx((0, 10), abs=1e-4)
    down, right = place(randaugment._rotate, 1.0)
    assert math.hypot(down, right) == pytest.approx(10, abs=0.2)
    assert abs(math.degrees(math.atan2(down, right))) == pytest.approx(30, abs=1.5)
    assert place(randaugment._rotate, -1.0) == pytest.approx((-down, right), abs=0.05)
    assert place(randaugment._translate_x, 0.2)[1] == pytest.approx(10 - 0.9 * 0.2 * 41 / 2, abs=0.1)
    assert abs(place(randaugment._translate_y, 0.2)[0]) == pytest.approx(0.9 * 0.2 * 41 / 2, abs=0.1)
    assert abs(place(randaugment._shear_y, 1.0)[0]) == pytest.approx(3, abs=0.1)
    assert place(randaugment._shear_x, 1.0) == pytest.approx((0, 10), abs=1e-3)  # on the axis, nothing moves


def test_every_operation_is_drawn_equally_often(monkeypatch):
    seen = dict.fromkeys(range(len(OPERATIONS)), 0)

    def spy(number):
        def operation(x, amount):
            seen[number] += len(x)
            assert (amount.abs() == 0.5).all()
            return x

        return operation

    monkeypatch.setattr(randaugment, "OPERATIONS", tuple(map(spy, seen)))
    n = 14_000
    keys = counter_rng.sample_keys(0, 0, 0, torch.arange(n))
    RandAugment(2, 15)(torch.zeros(n, 1, 1, 1), keys)
    drawn = [count for number, count in seen.items() if number]
    assert all(abs(count - 2000) < 180 for count in drawn)  # 4 standard deviations


def test_zero_operations_change_nothing():
    x = images(5)
    assert torch.equal(RandAugment(0, 30)(x, torch.arange(5)), x)


def test_results_stay_in_range():
    x = images(200, 3, 9)
    for magnitude in (0, 30):
        result = RandAugment(3, magnitude)(x, counter_rng.sample_keys(0, 0, 0, torch.arange(200)))
        assert result.isfinite().all()
        assert result.min() >= -1e-6
        assert result.max() <= 1 + 1e-6


@pytest.mark.parametrize(("operations", "magnitude", "name"), [(-1, 9, "operations"), (2, 31, "magnitude")])
def test_arguments_are_checked(operations, magnitude, name):
    with pytest.raises(ValueError, match=name):
        RandAugment(operations, magnitude)
