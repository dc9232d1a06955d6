"""Corrected labels in a run: trained on, measured on, kept when it is continued."""

from __future__ import annotations

import csv
import html
import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import labeltree as lt
from labeltree.cli.commands.train_command import _join_lists
from labeltree.cli.main import main
from labeltree.data.corrections import Correction, Corrections
from labeltree.errors import OtherSettingsError, RunError
from labeltree.inference.load_run import load_run
from labeltree.report.corrected_labels import already_corrected, correct_run
from labeltree.training.fit import train
from labeltree.training.read_recipes import RecipeParser, make_recipe, with_absolute_paths
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import open_recipe_source


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
    assert "1 label replaced, 1 label taken away, 1 sample removed" in notes[-1]
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
    # what is corrected in what is measured is told, with the numbers with and without it
    total = source.split.tolist().count("test")  # type: ignore[union-attr]
    report = done.report.read_text("utf-8")
    for told in (done.result.cautions, [done.headline], [html.unescape(report)]):
        text = " ".join(told)
        assert f"Of {total} test labels, 3 were corrected (3 removed). Only labels that somebody" in text
        assert "the corrections flatter it" in text
        assert re.search(r"top1 \d\.\d{4} with, (\d\.\d{4}) without; hierarchical f1", text)


def test_other_data_of_a_corrected_run_are_told_to_be_uncorrected(
    recipe_of: Callable[..., Recipe], tmp_path: Path
) -> None:
    recipe = recipe_of(epochs=1)
    source = open_recipe_source(recipe)
    table = tmp_path / "decided.csv"
    label = str(source.taxonomy.decode(source.nodes)[0])
    Corrections((Correction(source.sample_names()[0], label, "remove"),)).save(table)
    run = train(replace(recipe, corrections=str(table)), tmp_path / "run", progress_bar=False)
    done = lt.evaluate(run.path, data=recipe.data, resamples=0)
    assert "of these samples from its training or validation" in done.verdict[1]
    assert done.verdict[2].startswith(
        "It was trained with corrected labels; the labels measured on are as they"
    )


def test_corrections_go_on_from_round_to_round(
    recipe_of: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = open_recipe_source(recipe_of(epochs=1))
    names, labels = source.sample_names(), source.taxonomy.decode(source.nodes)
    split = source.split.tolist()  # type: ignore[union-attr]
    test, gone = split.index("test"), split.index("train")
    leaves = [source.taxonomy.path_name(int(leaf)) for leaf in source.taxonomy.leaves]
    other, third = [leaf for leaf in leaves if leaf != labels[test]][:2]
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    Corrections(
        (
            Correction(names[test], str(labels[test]), "accept", other),
            Correction(names[gone], str(labels[gone]), "remove"),
        )
    ).save(first)
    Corrections((Correction(names[test], other, "accept", third),)).save(second)
    recipe = recipe_of(epochs=1, corrections=[str(first), str(second)])
    run = train(recipe, tmp_path / "run", progress_bar=False)
    own = [run.path / "corrections.csv", run.path / "corrections-2.csv"]
    assert run.correction_files == own
    notes = " ".join(json.loads(run.data.read_text("utf-8"))["notes"])
    assert "'first.csv': 1 label replaced, 1 sample removed" in notes
    assert "'second.csv': 1 label replaced" in notes

    # the record is complete, and a table that changes is told
    first.unlink()
    assert train(recipe, run.path, progress_bar=False).path == run.path
    Corrections((Correction(names[test], other, "accept", str(labels[test])),)).save(second)
    with pytest.raises(OtherSettingsError, match=r"'.*second.csv' have changed .*corrections-2\.csv"):
        train(recipe, run.path, progress_bar=False)
    second.unlink()

    # its suspects are judged by their corrected labels, and the next command names all tables
    assert main(["suspects", str(run.path), "--least-score", "0", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert f"--corrections {own[0]} {own[1]} {run.path / 'suspects.csv'}" in said
    with (run.path / "suspects.csv").open(encoding="utf-8", newline="") as file:
        assert {row["label"] for row in csv.DictReader(file) if row["sample"] == names[test]} <= {third}
    seen = load_run(run.path).source
    assert seen.taxonomy.decode(seen.nodes)[seen.sample_names().index(names[test])] == third
    assert names[gone] not in seen.sample_names()

    # measured: the tables of the run itself are done already, whether they are named or not
    more = tmp_path / "more.csv"
    Corrections((Correction(names[test], third, "no label"),)).save(more)
    alone, named = correct_run(run, more, seen), correct_run(run, [*own, more], seen)
    assert alone.counts == named.counts == {"unlabelled": 1}
    assert str(already_corrected(run, seen, "test")).startswith(
        f"Of {split.count('test')} test labels, 1 was corrected before the run was trained"
    )
    assert already_corrected(run, seen, "val") is None


def test_settings_from_python_may_be_paths(tmp_path: Path) -> None:
    """Tables of corrections are one or several, and come from wherever the caller is."""
    first, second = tmp_path / "first.csv", tmp_path / "a, b: [ü].csv"
    first.touch()
    for given in (first, [first], str(first)):
        one = make_recipe({"data": "emoji", "corrections": given})
        assert with_absolute_paths(one).corrections == str(first)
    two = make_recipe({"data": "emoji", "corrections": (first, str(second)), "taxonomy": tmp_path / "t.yaml"})
    assert two.corrections == [str(first), str(second)]
    assert two.taxonomy == str(tmp_path / "t.yaml")
    assert with_absolute_paths(make_recipe({"data": "emoji", "corrections": []})).corrections is None
    arguments = _join_lists(["--corrections", str(first), str(second), "--data", "emoji"], "--corrections")
    assert RecipeParser("supcon").recipe(arguments).corrections == [str(first), str(second)]
    again = _join_lists(["--corrections=a", "--data", "emoji", "--corrections", "b"], "--corrections")
    assert RecipeParser("supcon").recipe(again).corrections == ["a", "b"]
    assert _join_lists(["--corrections", "a"], "--corrections") == ["--corrections", "a"]


def test_corrected_training_labels_change_no_classifier(
    recipe_of: Callable[..., Recipe], tmp_path: Path
) -> None:
    """The model is compared with others that have learned from the same labels as it did."""
    run = train(recipe_of(epochs=1), tmp_path / "run", progress_bar=False)
    source = load_run(run.path).source
    labels, names = source.taxonomy.decode(source.nodes), source.sample_names()
    kinds = sorted(set(map(str, labels)))
    following = dict(zip(kinds, [*kinds[1:], kinds[0]], strict=True))
    table = tmp_path / "decided.csv"
    Corrections(
        tuple(
            Correction(name, str(label), "accept", following[str(label)])
            for name, label, split in zip(names, labels, source.split, strict=True)  # type: ignore[arg-type]
            if split == "train"
        )
    ).save(table)
    plain = lt.evaluate(run.path, resamples=0).result
    done = lt.evaluate(run.path, corrections=table, resamples=0).result
    scores = [
        {name: method.answer_score("top1") for name, method in result.methods.items()}
        for result in (plain, done)
    ]
    assert len(scores[0]) == 3
    assert scores[1] == scores[0]
    assert any("have learned from the labels without these corrections" in note for note in done.cautions)
