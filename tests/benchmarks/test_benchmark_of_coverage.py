"""What the campaign of coverage keeps is what it goes on from."""

import importlib
from pathlib import Path

import numpy as np


def test_repetitions_are_kept_and_gone_on_from(tmp_path: Path) -> None:
    campaign = importlib.import_module("coverage")
    rng = np.random.default_rng(0)
    few, many = campaign.WORLDS[0], campaign.WORLDS[3]
    rows = {world: [] for world in campaign.WORLDS}
    for world in (few, many):
        for _ in range(3):
            row = {name: rng.uniform(-1, 2, 9).tolist() for name in campaign.ROWS if name != campaign.BRANCH}
            row["top1"][3] = 0.05004  # no alarm
            row["cpcc"][1:] = [float("nan")] * 8
            rows[world].append(row)
    rows[few][1][campaign.BRANCH] = rng.uniform(size=9).tolist()
    campaign.keep(tmp_path / "kept.npz", rows)
    again = campaign.read_kept(tmp_path / "kept.npz")
    assert list(again) == list(campaign.WORLDS)
    for world, several in rows.items():
        assert len(again[world]) == len(several)
        for row, kept in zip(several, again[world], strict=True):
            assert list(kept) == [name for name in campaign.ROWS if name in row]
            for name, figures in row.items():
                np.testing.assert_allclose(kept[name], figures, rtol=0, atol=world.unit)
            assert kept["top1"][3] > 0.05
