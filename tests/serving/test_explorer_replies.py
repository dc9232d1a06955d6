"""What the explorer replies: to searches with all that was asked, pictures of their sizes, nodes, maps."""

from __future__ import annotations

import threading
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explorer_inputs import ColourEngine, make_collection, make_show, square
from PIL import Image

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from labeltree.errors import DataError
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer import maps as maps_module
from labeltree.serving.explorer.corrections_file import CorrectionsFile
from labeltree.serving.explorer.explorer_app import create_explorer
from labeltree.serving.explorer.explorer_pictures import Pictures
from labeltree.serving.explorer.explorer_replies import HitList
from labeltree.serving.explorer.maps import _LANDMARKS, Maps, _follow, compute_map
from labeltree.serving.explorer.node_facts import _neighbours, facts_of_node


def client_of(show: Any, engine: Any = None) -> TestClient:
    return TestClient(create_explorer(show, engine), base_url="http://localhost")


def test_a_search_hands_on_all_that_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show, asked = make_show(tmp_path, space="features"), list[tuple[Any, ...]]()
    nothing = HitList(query="", sample=None, reference=-1, reference_is="none", hits=[])
    monkeypatch.setattr(show, "like", lambda *given: asked.append(given) or nothing)
    monkeypatch.setattr(show, "near", lambda *given: asked.append(given) or nothing)
    engine: Any = ColourEngine()
    answer = engine.ask

    def ask(*given: Any) -> Any:
        found = answer(*given)
        found.result()["embedding"] = [9.0]
        return found

    monkeypatch.setattr(engine, "ask", ask)
    dials, kind = "k=7&within=1&tree=0.25&instance=0.75", {"Content-Type": "image/png"}
    with client_of(show, engine) as client:
        assert client.get(f"/api/search/sample?row=5&{dials}").status_code == 200
        sent = client.post(f"/api/search?reference=2&{dials}", content=square((9, 9, 9)), headers=kind)
        assert sent.status_code == 200
        show.collection.__dict__["space"] = "embeddings"
        client.post("/api/search", content=square((9, 9, 9)), headers=kind)
    assert asked[0] == (5, 7, 1, 0.25, 0.75)
    vector, *rest = asked[1]
    assert len(vector) == 8, "of features"
    assert rest == ["image", 7, 1, 2, 0.25, 0.75]
    vector, *rest = asked[2]
    assert vector.tolist() == [9.0]
    assert rest == ["image", 60, None, None, None, None]


def test_two_hundred_samples_are_told_at_once(tmp_path: Path) -> None:
    show = make_show(tmp_path, texts=np.array(["x" * 3000] * 40, object))
    with client_of(show) as client:
        found = client.get("/api/samples", params={"rows": ",".join(["3"] * 200)}).json()["samples"]
        assert [len(found), found[0]["row"], len(found[0]["text"])] == [200, 3, 2000]
        assert client.get("/api/samples", params={"rows": ""}).json()["samples"] == []
        for size, kind in ((64, "image/png"), (160, "image/jpeg")):
            assert client.get(f"/api/pictures/0?size={size}").headers["content-type"] == kind


def test_a_node_has_its_children_with_their_counts(tmp_path: Path) -> None:
    given = np.array(make_collection(tmp_path).predictions)
    given[[2, 4, 6, 11]] = -1
    show = make_show(tmp_path, predictions=given, splits=np.array(["b", "a"] * 20, object))
    show.collection.nodes[14] = 0
    warm = show.collection.taxonomy.find("warm")
    page = show.node(warm)
    assert [(child.path[-1], child.count) for child in page.children] == [("red", 9), ("orange", 9)]
    assert [(part.split, part.samples, part.judged, part.right) for part in page.splits] == [
        ("b", 8, 5, 5), ("a", 10, 9, 8),
    ]  # fmt: skip
    assert show.info(None).splits == ["b", "a"], "as they come first"
    assert show.info(None).labelled == 39, "labels that share the root alone are labels"
    near = show.near(show.collection.vectors[14], "a vector", 3, None, warm)
    assert [hit.far is None for hit in near.hits] == [int(hit.sample.node) <= 0 for hit in near.hits]


def test_the_hardest_come_first_and_those_among_their_like_are_none(tmp_path: Path) -> None:
    it = make_collection(tmp_path)
    blue, red = (it.taxonomy.find(name) for name in ("blue", "red"))
    assert facts_of_node(it, blue).hardest[0] == 0
    more = make_collection(tmp_path, each=12)
    assert facts_of_node(more, blue).hardest == [0], "the others lie among blue ones alone"
    it.nodes[10] = red
    it.nodes[1] = it.taxonomy.find("orange")
    found = facts_of_node(it, it.taxonomy.find("warm")).hardest
    apart = [
        np.nanmean(it.far(int(it.nodes[row]), it.nodes[_neighbours(it, np.array([row]))[0]]).numpy())
        for row in found
    ]
    assert apart == sorted(apart, reverse=True)
    assert min(apart) > 0
    (near,) = _neighbours(it, np.array([25]))
    assert 25 not in near
    assert len(near) == 10


def test_problems_of_a_file_are_told_up_to_twenty(tmp_path: Path) -> None:
    file = tmp_path / "corrections.csv"
    rows = "".join(f"sample {row:03d},,nowhere,yes\n" for row in range(3, 28))
    file.write_text(f"sample,label,suggested,decision\n{rows}")
    show = make_show(tmp_path, file)
    problems = show.info(None).problems
    assert len(problems) == 20
    assert [f"row {row} " in problem for row, problem in enumerate(problems, 2)] == [True] * 20
    assert len(CorrectionsFile(file, show.collection).read().problems) == 25


def test_files_are_sought_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, elsewhere = (tmp_path / name for name in ("one", "two", "elsewhere"))
    for folder in (one, two, elsewhere):
        folder.mkdir()
    (two / "a.png").write_bytes(square((9, 9, 9)))
    (elsewhere / "a.png").write_bytes(square((9, 9, 9)))
    monkeypatch.chdir(elsewhere)
    pictures = Pictures(["a.png", "b.png"], [one, two], ServiceSettings())
    assert pictures.file_of(0) == two / "a.png"
    assert pictures.file_of(1) == one / "b.png"
    monkeypatch.chdir(two)
    assert Pictures(["a.png"], [two], ServiceSettings()).file_of(0) == two / "a.png"
    few = ServiceSettings(max_pixels=64)
    assert Pictures(["a.png"], [two], few).get(0, 64)
    with pytest.raises(DataError, match="8 x 8 pixels; 63 are the most"):
        Pictures(["a.png"], [two], replace(few, max_pixels=63)).get(0, 64)


def test_pictures_are_as_large_as_was_asked(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (300, 500, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    pictures = Pictures(
        ["a.png", ""], [tmp_path], ServiceSettings(), lambda row: np.zeros((3, 20, 20), np.uint8)
    )
    sizes = [Image.open(BytesIO(pictures.get(0, size))).size for size in (64, 160, 480)]
    assert sizes == [(64, 64), (160, 160), (480, 480)]
    drawn = [Image.open(BytesIO(pictures.get(1, size))).size for size in (64, 480)]
    assert drawn == [(60, 60), (480, 480)], "by whole factors, so that pixels stay squares"
    large = Pictures([""], [tmp_path], ServiceSettings(), lambda row: np.zeros((1, 600, 300), np.uint8))
    assert Image.open(BytesIO(large.get(0, 160))).size == (80, 160)


def test_other_samples_stand_between_landmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = make_collection(tmp_path)
    landmarks = np.array([0, 5, 12, 25, 38])
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    found = _follow(it, landmarks, places)
    assert found[landmarks].tolist() == places.tolist()
    others = np.delete(found, landmarks, 0)
    assert (np.abs(others).sum(1) < 1 - 1e-6).all(), "inside all five, on none"
    hyperbolic = replace(it, vectors=it.vectors * 0.5, geometry="poincare", nodes=np.full(40, -1))
    assert compute_map(hyperbolic, "disk").note.startswith("PCA")
    monkeypatch.setitem(_LANDMARKS, "disk", 30)
    some = replace(hyperbolic, nodes=np.where(np.arange(40) < 20, it.nodes, -1))
    assert "30 samples were laid out" in compute_map(some, "disk").note


def test_a_map_that_failed_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, said, outcomes = make_collection(tmp_path), list[str](), [MemoryError(), None]
    points = np.zeros((40, 2), np.float32)

    def compute(collection: Any, name: str) -> Any:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return maps_module.PlaneMap(points, "again")

    def state() -> str:
        for thread in threading.enumerate():
            if thread.name == "map UMAP":
                thread.join(60)
        return next(f"{one.state} {one.problem}" for one in maps.states() if one.name == "UMAP")

    monkeypatch.setattr(maps_module, "compute_map", compute)
    maps = Maps(it, None, said.append)
    maps.start("UMAP")
    assert (state(), maps._problems) == ("failed MemoryError", {"UMAP": "MemoryError"})
    assert said == ["the map UMAP is not there: MemoryError"]
    maps.start("UMAP")
    assert (state(), maps._problems) == ("ready ", {})
    assert maps.start("UMAP").state == "ready"
