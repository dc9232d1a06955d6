"""Corrected labels in a run: trained on, measured on, kept when it is continued."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import labeltree as lt
from labeltree.cli.main import main
from labeltree.data.corrections import Correction, Corrections
from labeltree.errors import OtherSettingsError, RunError
from labeltree.inference.loading import load_run
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe


def test_a_run_learns_from_corrections_and_keeps_them(
    recipe_of: Callable[..., Recipe], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = recipe_of(epochs=1)
    run = train(plain, tmp_path / "plain", progress_bar=False)
    source = load_run(run.path).source
    ids = source.sample_names()
    leaves = [source.taxonomy.path_name(int(leaf)) for leaf in source.taxonomy.leaves]
    label = source.taxonomy.decode(source.nodes)
    other = next(leaf for leaf in leaves if leaf != label[0])
    table = tmp_path / "corrections.csv"
    entries = (
        Correction(ids[0], str(label[0]), "accept", other),
        Correction(ids[1], str(label[1]), "remove"),
        Correction(ids[2], str(label[2]), "no label"),
        Correction("gone.png", "x", "remove"),
    )
    Corrections(entries).save(table)
    corrected = recipe_of(epochs=1, corrections=str(table))
    with caplog.at_level(logging.WARNING):
        run = train(corrected, tmp_path / "corrected", progress_bar=False)
    notes = json.loads(run.data.read_text("utf-8"))["notes"]
    assert "1 labels replaced, 1 labels taken away, 1 samples removed" in notes[-1]
    assert "'gone.png'" in notes[-1]
    seen = load_run(run.path).source
    found = dict(zip(seen.sample_names(), seen.taxonomy.decode(seen.nodes), strict=True))
    assert found[ids[0]] == other
    assert ids[1] not in found
    assert found[ids[2]] is None
    # splits are drawn by the labels as they were, so nothing else moves
    before = dict(zip(ids, source.split.tolist(), strict=True))  # type: ignore[union-attr]
    after = dict(zip(seen.sample_names(), seen.split.tolist(), strict=True))  # type: ignore[union-attr]
    assert after == {name: split for name, split in before.items() if name != ids[1]}

    # the run has them, whatever becomes of the file; other decisions are another run
    assert Corrections.load(run.corrections).same_as(Corrections(entries))
    text = table.read_text("utf-8")
    table.write_text("\n".join(text.splitlines()[:-2]) + "\n", "utf-8")
    with pytest.raises(OtherSettingsError, match="have changed since the run"):
        train(corrected, run.path, progress_bar=False)
    table.write_text(text + "d.png,x,y,\n", "utf-8")  # a row without a decision changes nothing
    assert train(corrected, run.path, progress_bar=False).path == run.path
    table.unlink()
    assert train(corrected, run.path, progress_bar=False).path == run.path
    assert len(load_run(run.path).source) == len(seen)
    run.corrections.unlink()
    with pytest.raises(RunError, match=r"has no corrections\.csv"):
        load_run(run.path)


def test_a_command_finds_suspects_and_an_evaluation_uses_the_decisions(
    recipe_of: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(recipe_of(epochs=1), tmp_path / "run", progress_bar=False)
    assert main(["suspects", str(run.path), "--least-score", "0", "--quiet"]) == 0
    assert "labels look wrong" in capsys.readouterr().out
    table = run.path / "suspects.csv"
    assert Corrections.load(table).entries == ()
    source = load_run(run.path).source
    labels = source.taxonomy.decode(source.nodes)
    chosen = [row for row, split in enumerate(source.split.tolist()) if split == "test"][:3]  # type: ignore[union-attr]
    Corrections(
        tuple(Correction(source.sample_names()[row], str(labels[row]), "remove") for row in chosen)
    ).save(table)
    done = lt.evaluate(run.path, corrections=table, resamples=0)
    assert done.metrics.parent == run.path / "corrected-suspects"
    assert any("3 samples removed" in note for note in done.result.notes)
    assert not run.metrics.exists()
