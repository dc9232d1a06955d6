"""``labeltree evaluate`` on another version of the taxonomy: a run, and embeddings of any model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.inference.load_run import load_run
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.versions.between_versions import VersionChange

OLD = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak", "plant/fern", "stone"])
NEW = Taxonomy.from_paths(["animal/pet", "plant/tree/oak", "plant/moss", "stone"])


def write_versions(folder: Path) -> tuple[str, str]:
    pairs = {"animal/dog": "animal/pet", "animal/cat": "animal/pet", "plant/oak": "plant/tree/oak"}
    targets = []
    for node in range(OLD.num_nodes):
        path = OLD.path_name(node)
        there = NEW.follow(tuple(pairs.get(path, path).split("/"))) if node else 0
        targets.append([] if there is None else [there])
    NEW.save(folder / "new.json")
    TaxonomyMapping(OLD, NEW, targets).save(folder / "map.yaml")
    return str(folder / "new.json"), str(folder / "map.yaml")


def write_table(folder: Path, **columns: object) -> Path:
    generator = torch.Generator().manual_seed(0)
    nodes = OLD.leaves.repeat(12)
    centres = torch.randn(OLD.num_nodes, 4, generator=generator)
    points = centres[nodes] + 0.2 * torch.randn(len(nodes), 4, generator=generator)
    given = {"labels": np.array([OLD.path_name(node) for node in nodes.tolist()])} | columns
    np.savez(folder / "theirs.npz", embeddings=points.numpy(), **given)  # type: ignore[arg-type]
    return folder / "theirs.npz"


def test_labels_by_name_follow_the_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, mapping = write_versions(tmp_path)
    table = write_table(tmp_path)
    words = ["--embeddings", str(table), "--taxonomy", new, "--mapping", mapping, "--quiet"]
    assert main(["evaluate", *words]) == 0
    said = capsys.readouterr().out
    assert "by the mapping map.yaml: 1 node moved: 12 samples; 2 nodes merged" in " ".join(said.split())
    content = json.loads((tmp_path / "theirs" / "metrics.json").read_text("utf-8"))
    assert content["taxonomy_changes"]["merge"] == {"nodes": 2, "samples": 24}
    assert content["taxonomy_changes"]["remove"] == {"nodes": 1, "samples": 12}
    assert content["counts"]["classes tested"] == 3
    assert "merged into another: 24 samples" in (tmp_path / "theirs" / "report.html").read_text("utf-8")


def test_a_mapping_that_was_made_for_other_versions_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, mapping = write_versions(tmp_path)
    table = write_table(tmp_path)
    Taxonomy.from_paths([*map(NEW.path_name, NEW.leaves.tolist()), "animal/cow"]).save(new)
    words = ["--embeddings", str(table), "--taxonomy", new, "--mapping", mapping, "--quiet"]
    assert main(["evaluate", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    made = f"map.yaml was made for a version with {len(NEW)} nodes and the digest {NEW.digest[:16]}; the new"
    assert f"{made} taxonomy is of {len(NEW) + 1} nodes, digest" in said
    more = Taxonomy.from_paths([*map(OLD.path_name, OLD.leaves.tolist()), "animal/cow"])
    change = VersionChange.of(more, Taxonomy.from_file(new), mapping)
    assert change.made_for[0].endswith(f"the labels are of {len(more)} nodes, digest {more.digest[:16]}.")
    assert not VersionChange.of(OLD, NEW, mapping).made_for


def test_numbers_of_nodes_need_the_taxonomy_that_they_are_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, mapping = write_versions(tmp_path)
    nodes = OLD.leaves.repeat(12)
    points = torch.randn(len(nodes), 4, generator=torch.Generator().manual_seed(0))
    EmbeddingTable(points, nodes).save(tmp_path / "t.npz")
    words = ["evaluate", "--embeddings", str(tmp_path / "t.npz"), "--taxonomy", new, "--mapping", mapping]
    assert main([*words, "--quiet"]) == 2
    assert "put it beside, as 't.taxonomy.json'" in capsys.readouterr().err
    OLD.save(tmp_path / "t.taxonomy.json")
    assert main([*words, "--quiet"]) == 0
    assert main([*words[:-2], "--quiet"]) == 0  # what is certain: dogs, cats and ferns are gone
    content = json.loads((tmp_path / "t" / "metrics.json").read_text("utf-8"))
    assert content["taxonomy_changes"]["remove"]["samples"] == 36
    assert content["taxonomy_changes"]["move"] == {"nodes": 1, "samples": 12}


def test_a_mapping_within_one_taxonomy_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dog, cat = OLD.find("dog"), OLD.find("cat")
    targets = [[dog if node == cat else node] for node in range(OLD.num_nodes)]
    OLD.save(tmp_path / "old.json")
    TaxonomyMapping(OLD, OLD, targets).save(tmp_path / "dogs.yaml")
    table = write_table(tmp_path)
    words = ["evaluate", "--embeddings", str(table), "--taxonomy", str(tmp_path / "old.json"), "--quiet"]
    words += ["--mapping", str(tmp_path / "dogs.yaml")]
    for known in (False, True):
        if known:
            OLD.save(tmp_path / "theirs.taxonomy.json")
        assert main([*words, "--out", str(tmp_path / f"found-{known}")]) == 0
        content = json.loads((tmp_path / f"found-{known}" / "metrics.json").read_text("utf-8"))
        assert content["counts"]["classes tested"] == 4
    _, other = write_versions(tmp_path)
    capsys.readouterr()
    assert main([*words[:-1], other]) == 2
    assert "map.yaml" in capsys.readouterr().err


def test_a_mapping_leads_to_a_dag_by_any_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pet is an animal and a companion; ferns are gone, and cats and dogs are one class."""
    table, dag, mapping = write_table(tmp_path), tmp_path / "dag.csv", tmp_path / "map.yaml"
    edges = "animal,root\ncompanion,root\nplant,root\nstone,root\npet,animal\npet,companion\noak,plant\n"
    dag.write_text(f"child,parent\n{edges}moss,plant\n")
    mapping.write_text(
        "labeltree mapping: 1\nchanges:\n- {merge: animal/dog, to: companion/pet}\n"
        "- {merge: animal/cat, to: animal/pet}\n- {remove: plant/fern}\n"
    )
    words = ["evaluate", "--embeddings", str(table), "--taxonomy", str(dag), "--quiet"]
    for known in (False, True):
        if known:
            OLD.save(tmp_path / "theirs.taxonomy.json")
        assert main([*words, "--mapping", str(mapping)]) == 0
        content = json.loads((tmp_path / "theirs" / "metrics.json").read_text("utf-8"))
        assert content["taxonomy_changes"]["merge"] == {"nodes": 2, "samples": 24}
        assert content["taxonomy_changes"]["remove"] == {"nodes": 1, "samples": 12}
        assert content["counts"]["classes tested"] == 3
        assert "The taxonomy is a DAG." in str(content["notes"])
    capsys.readouterr()
    assert main(words) != 0
    said = capsys.readouterr().err
    assert "3 of 5 labels are not in" in said
    assert "or say with --mapping what became of them: 'labeltree taxonomy project" in said
    assert main(["evaluate", str(tmp_path), "--mapping", str(mapping)]) != 0


@pytest.mark.slow
def test_a_run_on_another_version(
    tmp_path: Path, make_image_folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "accelerator": "cpu"}
    photos = make_image_folder(tmp_path / "photos", per_leaf=12)
    run = lt.train(
        photos, "ce", out=tmp_path / "run", progress_bar=False, image_size=28, test=0.3, val=0.2, **settings
    )
    new = tmp_path / "revised.yaml"
    new.write_text("animal:\n  dog: [hound]\n  cat: [tabby]\nplant: [rose, fern]\n")
    old = run.load_taxonomy()
    tree = Taxonomy.from_file(new)
    hound = tree.find("hound")
    targets = [
        [hound] if old.names[node] in ("poodle", "beagle") else [tree.find(old.path_name(node))]
        for node in range(old.num_nodes)
    ]
    TaxonomyMapping(old, tree, targets).save(tmp_path / "map.yaml")
    words = ["evaluate", str(run.path), "--taxonomy", str(new), "--mapping", str(tmp_path / "map.yaml")]
    assert main([*words, "--quiet", "--protocols", "decisions"]) == 0
    said = capsys.readouterr().out
    assert "2 nodes merged into another" in said
    assert "Before and after" not in said  # it was not evaluated before
    content = json.loads((run.path / "on-revised" / "metrics.json").read_text("utf-8"))
    assert content["counts"]["classes tested"] == 4
    source = load_run(run.path).source
    merged = np.isin(source.nodes.numpy(), [node for node in range(len(targets)) if targets[node] == [hound]])
    tested = int((merged & (np.asarray(source.split) == "test")).sum())
    assert 0 < tested < merged.sum()
    assert content["taxonomy_changes"]["merge"] == {"nodes": 2, "samples": tested}
    lt.evaluate(run, resamples=0)
    for _ in range(2):
        lt.evaluate(run, new, resamples=0)  # by another mapping: into another folder, each time the same
    (other,) = run.path.glob("on-revised-????????")
    assert json.loads((run.path / "on-revised" / "metrics.json").read_text("utf-8")) == content
    theirs = json.loads((other / "metrics.json").read_text("utf-8"))
    assert theirs["taxonomy_changes"]["remove"]["nodes"] == 2
    new.write_text("animal:\n  dog: [hound]\n  cat: [tabby]\nflora: [rose, fern]\n")
    assert main([*words[:4], "--quiet"]) == 0  # another taxonomy of the same name
    assert len(list(run.path.glob("on-revised-????????"))) == 2
    new.write_text("animal:\n  dog: [hound]\n  cat: [tabby]\nplant: [rose, fern]\n")
    lt.evaluate(run, new, mapping=tmp_path / "map.yaml", resamples=0)
    assert len(list(run.path.glob("on-revised*"))) == 3
    done = lt.evaluate(run, new, out=tmp_path / "certain", resamples=0)
    assert done.result.taxonomy_changes["remove"]["nodes"] == 2
    assert done.result.main.scores["predictions"]["own_top1"] >= 0
    (said,) = (note for note in done.result.cautions if "Before and after" in note)
    assert f"of the {done.result.main.errors.samples} whose label is a class on both" in said
