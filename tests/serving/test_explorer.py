"""The explorer's interface: what it says is true, and nobody gets what is not theirs."""

from __future__ import annotations

import csv
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from explorer_inputs import COLOURS, ODD, ColourEngine, make_collection, make_show, square, with_dials
from PIL import Image

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from labeltree.data.corrections import Corrections
from labeltree.errors import DataError
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer.corrections_file import CorrectionsFile, read_suspects
from labeltree.serving.explorer.explorer_app import create_explorer
from labeltree.serving.explorer.explorer_pictures import Pictures
from labeltree.serving.explorer.maps import _LANDMARKS, Maps, compute_map
from labeltree.serving.explorer.node_facts import count_below, facts_of_node
from labeltree.serving.explorer.open_explorer import explore
from labeltree.serving.explorer.review_decisions import Conflict, Decision, Kept
from labeltree.serving.guard import Guard, host_of
from labeltree.workbooks import write_workbook

HEAD = "sample,label,suggested,decision\n"
TOKEN = "0123456789abcdef-token"
JSON = {"Content-Type": "application/json"}


def open_client(show: Any, engine: Any = None, **options: Any) -> TestClient:
    app = create_explorer(show, engine, **options)
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


@pytest.fixture
def corrections(tmp_path: Path) -> Path:
    return tmp_path / "corrections.csv"


@pytest.fixture
def show(tmp_path: Path, corrections: Path) -> Any:
    return make_show(tmp_path, corrections)


@pytest.fixture
def client(show: Any) -> Iterator[TestClient]:
    with open_client(show, ColourEngine(max_upload=100_000)) as client:
        yield client


# What it says


def test_counts_accuracy_and_suspects_are_those_of_the_samples(client: TestClient, show: Any) -> None:
    info, tree = client.get("/api/info").json(), client.get("/api/tree").json()
    it = show.collection
    assert (info["samples"], info["labelled"], info["suspects"], info["reads"]) == (40, 39, 2, ["image"])
    assert info["judged"] == "test"
    rows = [row for row in range(40) if it.splits[row] == "test" and it.nodes[row] >= 0]
    for node in range(it.taxonomy.num_nodes):
        below = [row for row in rows if node <= it.nodes[row] < tree["ends"][node]]
        assert tree["judged"][node] == len(below)
        assert tree["right"][node] == sum(it.predictions[row] == it.nodes[row] for row in below)
    assert tree["samples"][it.taxonomy.find("warm")] == 19
    assert tree["suspects"][0] == 2
    assert tree["suspects"][it.taxonomy.find("blue")] == 1


def test_rows_and_maps_are_arrays(client: TestClient, show: Any) -> None:
    content = client.get("/api/rows").content
    assert np.frombuffer(content, "<i4", 40).tolist() == show.collection.nodes.tolist()
    state = np.frombuffer(content, np.uint8, 40, 160)
    assert (state & 1).nonzero()[0].tolist() == [0, 12]
    assert state[1] & 6 == 2  # predicted, and wrong
    assert set(content[200:240]) == {0, 1}
    reply = client.get("/api/maps/PCA")
    places = np.frombuffer(reply.content, "<f4").reshape(2, 40)
    assert np.abs(places).max() <= 1
    assert "variance" in reply.headers["x-note"]
    assert client.get("/api/maps/nothing").status_code == 422


def test_a_sample_is_compared_with_its_label(client: TestClient, show: Any) -> None:
    found = client.get("/api/search/sample", params={"row": 5, "k": 12}).json()
    assert found["reference_is"] == "label"
    assert found["sample"]["row"] == 5
    assert 5 not in [hit["sample"]["row"] for hit in found["hits"]]
    assert len(found["hits"]) == 12
    for hit in found["hits"]:
        label = hit["sample"]["node"]
        assert hit["far"] == pytest.approx(show.collection.far(found["reference"], np.array([label])).item())
        assert hit["shared"] == int(show.collection.taxonomy.lca(found["reference"], label))
        assert hit["colour"].startswith("#")
    inside = client.get("/api/search/sample", params={"row": 5, "within": 1}).json()
    assert {hit["sample"]["path"][0] for hit in inside["hits"]} == {"warm"}
    path = show.collection.taxonomy.path_name(1)
    assert client.get("/api/search/sample", params={"row": 5, "within": path}).json() == inside
    wrong = client.get("/api/search/sample", params={"row": 5, "within": "warn"})
    assert wrong.status_code == 422
    assert "'warn'" in wrong.json()["detail"]
    assert client.get("/api/search/sample", params={"row": 5, "within": 999}).status_code == 404


def test_a_vector_is_compared_with_the_nearest_label(show: Any) -> None:
    """Also where the next is another, and where the nearest sample, the last one, has none."""
    vectors, nodes = show.collection.vectors, show.collection.nodes
    several = 0
    for query in [vectors[0], *(vectors[0] + vectors[20:30]), vectors[39]]:
        found = show.near(query, "a vector", 3, None, None)
        labels = [int(nodes[hit.sample.row]) for hit in found.hits]
        known = [label for label in labels if label >= 0]
        assert (found.reference, found.reference_is) == (known[0], "nearest")
        several += len(set(known)) > 1 or labels[0] < 0
    assert several > 3


def test_the_root_as_label_says_nothing(tmp_path: Path) -> None:
    """Samples have it whose labels share nothing else: no frame, no neighbour's frame, no right answer."""
    show, plain = make_show(tmp_path), make_show(tmp_path)
    for row in (5, 6, 25):
        show.collection.nodes[row], plain.collection.nodes[row] = 0, -1
    assert show.tree().judged == plain.tree().judged
    assert show.tree().right == plain.tree().right
    for row in (1, 5, 6):
        root, missing = (each.like(row, 12, None) for each in (show, plain))
        assert (root.reference, root.reference_is) == (missing.reference, missing.reference_is)
        assert [hit.far for hit in root.hits] == [hit.far for hit in missing.hits]
        query = show.collection.vectors[row]
        near, none = (each.near(query, "a vector", 8, None, None) for each in (show, plain))
        assert (near.reference, near.reference_is) == (none.reference, "nearest")
    assert show.near(show.collection.vectors[5], "a vector", 1, None, None).reference_is == "none"
    assert show.near(show.collection.vectors[5], "a vector", 2, None, 0).hits[1].far is None


def test_every_sample_is_told_with_its_path(tmp_path: Path) -> None:
    """Also that of the first node, an inner one; the path of a sample without a label is empty."""
    show = make_show(tmp_path)
    it = show.collection
    it.nodes[:7] = range(7)
    for sample in show.samples(range(40)):
        node = int(it.nodes[sample.row])
        assert sample.path == (list(it.taxonomy.path(node)) if node > 0 else [])
        assert sample.predicted_path == list(it.taxonomy.path(int(it.predictions[sample.row])))  # type: ignore[index]


@pytest.mark.parametrize(
    ("splits", "labelled", "judged"),
    [
        (["train", "val", "test"], ["train", "val", "test"], "test"),
        (["train", "val", "test"], ["train", "val"], "val"),
        (["train", "val", "test"], ["train"], "all"),
        (["train", "val"], ["train", "val"], "val"),
        (["train"], ["train"], "all"),
        (None, None, "all"),
    ],
)
def test_accuracy_is_about_samples_that_the_model_has_not_seen(
    tmp_path: Path, splits: list[str] | None, labelled: list[str] | None, judged: str
) -> None:
    it = make_collection(tmp_path)
    assert it.predictions is not None
    given = None if splits is None else np.array([splits[row % len(splits)] for row in range(40)], object)
    if given is not None and labelled is not None:
        it.nodes[~np.isin(given, labelled)] = -1
    known = (it.nodes > 0) & (it.predictions > 0)
    rows, name = replace(it, splits=given).judged
    assert name == judged
    assert rows.tolist() == (known if judged == "all" else known & (given == judged)).tolist()


def test_a_sample_without_a_label_has_no_frames(client: TestClient) -> None:
    found = client.get("/api/search/sample", params={"row": 39}).json()
    assert (found["reference"], found["reference_is"]) == (-1, "none")
    assert all(hit["far"] is None and hit["colour"] is None for hit in found["hits"])


def test_an_image_finds_its_like(client: TestClient) -> None:
    blue, kind = square((30, 40, 200)), {"Content-Type": "image/png"}
    reply = client.post("/api/search?k=5", content=blue, headers=kind)
    hits = reply.json()["hits"]
    assert {hit["sample"]["path"][-1] for hit in hits if hit["sample"]["row"]} == {"blue"}
    assert reply.json()["reference_is"] == "nearest"
    form = client.post("/api/search", files={"files": ("a.png", square((200, 30, 30)))}).json()
    assert form["query"] == "a.png"
    node = client.post("/api/search?reference=1", content=blue, headers=kind).json()
    assert (node["reference"], node["reference_is"]) == (1, "node")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"not an image", "image/png", 400),
        (b"", "image/png", 400),
        (b"x" * 200_000, "image/png", 413),
        (b'{"texts": ["a"]}', "application/json", 422),
        (b"a=b", "application/x-www-form-urlencoded", 415),
    ],
)
def test_uploads_that_are_none_get_a_sentence(
    client: TestClient, content: bytes, kind: str, status: int
) -> None:
    reply = client.post("/api/search", content=content, headers={"Content-Type": kind})
    assert reply.status_code == status
    assert reply.json()["detail"]


def test_two_images_at_once_are_refused(client: TestClient) -> None:
    files = [("files", (f"{n}.png", square((n, n, n)))) for n in (1, 2)]
    reply = client.post("/api/search", files=files)
    assert (reply.status_code, reply.json()["detail"]) == (422, "send one image or one text at a time")


def test_without_a_model_there_is_a_reason(show: Any) -> None:
    with open_client(show) as client:
        assert client.get("/api/info").json()["reads"] == []
        reply = client.post("/api/search", content=b"x", headers={"Content-Type": "image/png"})
        assert (reply.status_code, reply.json()["detail"]) == (422, "there is no model to search by")


def test_nodes_and_ids_are_found_by_parts_of_their_names(client: TestClient) -> None:
    def find(words: str) -> tuple[list[str], list[str]]:
        found = client.get("/api/find", params={"q": words}).json()
        return [m["path"][-1] for m in found["nodes"]], [m["id"] for m in found["samples"]]

    assert find("RED")[0] == ["red"]
    assert find("cold/bl")[0] == ["blue"]
    assert find("sample 01")[1] == [f"sample {n:03d}" for n in range(10, 18)]
    assert find('bold & "odd')[1] == [ODD]
    assert find("nothing like it") == find("  ") == ([], [])


def test_the_page_of_a_node_is_right(client: TestClient, show: Any) -> None:
    red = show.collection.taxonomy.find("red")
    page = client.get(f"/api/nodes/{red}").json()
    assert (page["samples"], page["here"], page["children"]) == (9, 9, [])
    assert {s["split"]: (s["samples"], s["judged"], s["right"]) for s in page["splits"]} == {
        "train": (4, 4, 4),
        "test": (5, 5, 4),
    }
    it = show.collection
    vectors = it.vectors[it.nodes == red].astype(float)
    mean = vectors.mean(0) / np.linalg.norm(vectors.mean(0))
    order = np.argsort(-(vectors @ mean), kind="stable")
    assert [typical["row"] for typical in page["typical"]] == np.flatnonzero(it.nodes == red)[order].tolist()
    assert [(c["path"], c["count"]) for c in page["confused"]] == [(["cold"], 1)]
    assert page["confused_by"] == "predictions"
    blue = client.get(f"/api/nodes/{show.collection.taxonomy.find('blue')}").json()
    assert blue["hardest"][0]["row"] == 0  # a red square that is called blue
    assert client.get("/api/nodes/99").status_code == 404
    nodes, rows = show.collection.taxonomy.num_nodes, len(show.collection)
    for place, last in (("nodes", nodes), ("pictures", rows)):
        missing = client.get(f"/api/{place}/{last}")
        assert missing.status_code == 404
        assert missing.text.count(f"are 0 to {last - 1}") == 1
    assert client.get(f"/api/nodes/{nodes - 1}").status_code == 200


def test_without_predictions_neighbours_say_what_is_confused(tmp_path: Path) -> None:
    it = make_collection(tmp_path, predictions=None)
    facts = facts_of_node(it, it.taxonomy.find("blue"))
    assert facts.confused_by == "neighbours"
    assert facts.confused[0].node == it.taxonomy.find("warm")
    assert it.judged[1] == ""


def test_empty_and_unlabelled_collections_have_pages(tmp_path: Path) -> None:
    it = make_collection(tmp_path, nodes=np.full(40, -1))
    assert count_below(it, np.ones(40, bool)).sum() == 0
    assert facts_of_node(it, 0).samples == 40
    assert facts_of_node(it, 1).samples == 0
    show = make_show(tmp_path)
    show.collection = it
    assert show.tree().samples[0] == 0
    one = make_collection(tmp_path, each=1)
    assert compute_map(one, "PCA").points.shape == (4, 2)


@pytest.mark.parametrize("path", ["/api/samples?rows=40", "/api/pictures/-1", "/api/search/sample?row=99"])
def test_rows_that_are_not_there(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("rows", ["a", "1,,2", "-1", "1;2", ",".join(["1"] * 201), "１"])
def test_rows_that_are_no_numbers(client: TestClient, rows: str) -> None:
    assert client.get("/api/samples", params={"rows": rows}).status_code == 422


def test_names_arrive_as_they_are_and_the_page_holds_none(client: TestClient) -> None:
    sample = client.get("/api/samples?rows=2").json()["samples"][0]
    assert sample["id"] == ODD
    page = client.get("/")
    assert "squares" not in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    for name in ("explore.js", "map.js", "tree.js", "cards.js", "explore.css"):
        found = client.get(f"/static/{name}")
        assert found.status_code == 200
        assert "http://" not in found.text.replace("http://www.w3.org", "")
        assert "https://" not in found.text
        assert "innerHTML" not in found.text
    assert client.get("/static/..%2fapp.py").status_code == 404
    assert client.get("/docs").status_code == 200
    assert "/api/review" in client.get("/openapi.json").json()["paths"]


# Pictures


def test_pictures_are_drawn_anew(client: TestClient) -> None:
    for size, kind in ((64, b"\x89PNG"), (160, b"\xff\xd8"), (480, b"\xff\xd8")):
        reply = client.get(f"/api/pictures/0?size={size}")
        assert reply.content.startswith(kind)
        assert client.get(f"/api/pictures/0?size={size}").content == reply.content
    assert client.get("/api/pictures/0?size=5000").status_code == 404


@pytest.mark.parametrize(
    "named",
    ["../secret.png", "/etc/passwd", "link.png", "x/../../secret.png", "sub/../../secret.png", "a\0b", ""],
)
def test_nothing_outside_the_folders_is_read(tmp_path: Path, named: str) -> None:
    data = tmp_path / "data"
    make_collection(data, each=1)
    (tmp_path / "secret.png").write_bytes(square((1, 2, 3)))
    (data / "link.png").symlink_to(tmp_path / "secret.png")
    pictures = Pictures([named], [data], ServiceSettings())
    with pytest.raises(DataError, match=r"outside the folders|no image file"):
        pictures.get(0, 160)
    absolute = Pictures([str(data / "0.png")], [data], ServiceSettings())
    assert absolute.get(0, 64).startswith(b"\x89PNG")
    with pytest.raises(DataError, match="outside"):
        Pictures([str(data / "0.png")], [], ServiceSettings()).get(0, 64)


def test_what_lies_in_no_file_is_drawn_and_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(square((200, 10, 10)))
    (tmp_path / "text.png").write_text("no picture")
    asked: list[int] = []

    def draw(row: int) -> Any:
        asked.append(row)
        return np.full((3, 16, 16), 255, np.uint8)

    paths = ["a.png", "within a data set", "", "../elsewhere.png", "text.png"]
    pictures = Pictures(paths, [tmp_path], ServiceSettings(), draw)
    shown = [np.asarray(Image.open(BytesIO(pictures.get(row, 64))).convert("RGB")).mean() for row in range(4)]
    assert shown[0] < 100
    assert shown[1:] == [255, 255, 255]
    assert asked == [1, 2, 3]
    with pytest.raises(DataError, match="not an image"):
        pictures.get(4, 64)
    with pytest.raises(DataError, match="no such file"):
        Pictures(paths, [tmp_path], ServiceSettings()).get(1, 64)


def test_files_that_are_no_pictures_say_nothing_of_their_content(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("root:x:0:0")
    (tmp_path / "b.png").mkdir()
    (tmp_path / "c.png").write_bytes(square((1, 2, 3)))
    pictures = Pictures(["a.png", "b.png", "c.png", "d.png"], [tmp_path], ServiceSettings(max_pixels=10))
    for row, why in enumerate(["not an image", "directory", "pixels", "no such file"]):
        with pytest.raises(DataError, match=why) as caught:
            pictures.get(row, 160)
        assert "root" not in str(caught.value)


# Who may ask


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "a@b", ""])
def test_other_names_of_the_host_are_refused(show: Any, host: str) -> None:
    with open_client(show) as client:
        for path in ("/", "/api/info", "/api/pictures/0"):
            assert client.get(path, headers={"Host": host}).status_code == 421
    with open_client(show, names=("Evil.example",)) as client:
        assert client.get("/api/info", headers={"Host": "evil.example:8000"}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]:8000", "192.168.1.5:80"])
def test_its_own_names_are_known(show: Any, host: str) -> None:
    with open_client(show) as client:
        assert client.get("/api/info", headers={"Host": host}).status_code == 200


def test_other_pages_cannot_ask(client: TestClient) -> None:
    body = json.dumps({"id": "sample 000", "action": "keep", "seen": ""})
    kind = {"Content-Type": "application/json"}
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/api/review", content=body, headers=kind | headers).status_code == 403
        assert client.get("/api/pictures/0", headers=headers).status_code == 403
    own = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/review", content=body, headers=kind | own).status_code == 200
    assert client.post("/api/review", content=body, headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200  # a link to it


def test_a_token_guards_everything_but_the_bare_page(show: Any) -> None:
    with open_client(show, token=TOKEN) as client:
        paths = ("/api/info", "/api/rows", "/api/pictures/0", "/docs", "/openapi.json", "/api/review")
        assert [client.get(path).status_code for path in paths] == [401] * 6
        assert client.get("/").status_code == client.get("/static/map.js").status_code == 200
        assert client.get("/api/info", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/api/info", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert client.get("/api/info", headers={"Cookie": f"labeltree={TOKEN}"}).status_code == 401
        began = time.monotonic()
        assert client.post("/api/session", json={"token": "wrong"}).status_code == 401
        assert time.monotonic() - began >= 0.5, "who guesses waits"
        half = client.post("/api/session", content=r'{"token": "\ud800"}', headers=JSON)
        assert half.status_code in (401, 422)
        given = client.post("/api/session", json={"token": TOKEN})
        assert given.status_code == 204
        assert TOKEN not in given.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in given.headers["set-cookie"]
        assert client.get("/api/info").status_code == 200  # by the cookie


def test_any_text_may_be_sent_as_token() -> None:
    for text in ("", "\ud800", "é", TOKEN + "\0"):
        assert Guard(None, TOKEN).cookie_for(text, "localhost") is None
        assert Guard(None, text + "x").cookie_for(text + "x", "localhost") is not None


def test_explorers_on_one_host_keep_their_cookies_apart() -> None:
    guards = [Guard(None, TOKEN) for _ in range(2)]
    cookies = [
        guard.cookie_for(TOKEN, f"localhost:{port}") for guard, port in zip(guards, (8000, 8001), strict=True)
    ]
    sent = "; ".join(cookie.partition(";")[0] for cookie in cookies if cookie)
    for guard, port in zip(guards, (8000, 8001), strict=True):
        assert guard.refusal("/api/info", "GET", {"host": f"localhost:{port}", "cookie": sent}) is None
    assert guards[0].refusal("/api/info", "GET", {"host": "localhost:8001", "cookie": sent}) is not None


@pytest.mark.parametrize("path", ["/api/review", "/api/search"])
def test_halves_of_characters_are_no_failure_of_the_server(client: TestClient, path: str) -> None:
    body = r'{"id": "\ud800", "action": "keep", "seen": "", "texts": ["\ud800"]}'
    assert 400 <= client.post(path, content=body, headers=JSON).status_code < 500


def test_hosts_of_headers() -> None:
    assert [host_of(text) for text in ("A.b:1", "[::1]", "x", "", "a:b", "a/b", "u@h")] == [
        "a.b",
        "::1",
        "x",
        None,
        None,
        None,
        None,
    ]


def test_others_reach_it_only_with_a_token(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ask for a token: 'token_file'"):
        explore(tmp_path, host="0.0.0.0")


# Review


def post(client: TestClient, **content: Any) -> Any:
    return client.post("/api/review", json=content)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_decisions_are_written_and_taken_back(client: TestClient, corrections: Path, show: Any) -> None:
    page = client.get("/api/review").json()
    assert (page["total"], page["decided"], page["matching"]) == (2, 0, 2)
    first = page["items"][0]
    assert first["suggested_path"] == ["warm", "red"]
    assert len(first["neighbours"]) == 6
    done = post(client, id="sample 000", action="accept", seen="").json()
    assert (done["action"], done["decided_path"]) == ("accept", ["warm", "red"])
    assert read(corrections) == [
        {"sample": "sample 000", "label": "cold/blue", "suggested": "warm/red", "decision": "accept"}
    ]
    assert client.get("/api/review").json()["matching"] == 1
    node = show.collection.taxonomy.find("cold")
    other = post(client, id="sample 012", action="accept", node=node, seen="").json()
    assert [row["suggested"] for row in read(corrections)] == ["warm/red", "cold"]
    assert post(client, id="sample 012", action="undo", seen=other["seen"]).json()["action"] is None
    assert [row["decision"] for row in read(corrections)] == ["accept", ""]
    kept = post(client, id="sample 012", action="keep", seen="").json()
    assert kept["decided_path"] == ["warm", "orange"]
    assert client.get("/api/review?state=decided").json()["matching"] == 2
    for action in ("remove", "no label"):
        kept = post(client, id="sample 012", action=action, seen=kept["seen"]).json()
        assert (kept["action"], kept["decided"]) == (action, -1)
    entries = Corrections.load(corrections).entries
    assert [(e.sample, e.label, e.decision, e.node) for e in entries] == [
        ("sample 000", "cold/blue", "accept", "warm/red"),
        ("sample 012", "warm/orange", "no label", ""),
    ]


def test_an_odd_name_goes_through_the_file(client: TestClient, corrections: Path, show: Any) -> None:
    odd = show.collection.taxonomy.find(list(COLOURS)[3])
    assert post(client, id=ODD, action="accept", node=odd, seen="").status_code == 200
    assert read(corrections)[0]["sample"] == ODD
    again = CorrectionsFile(corrections, show.collection)
    assert again.read().decisions == {ODD: Decision("accept", odd)}


def test_samples_named_by_rows_keep_their_fingerprint(show: Any, corrections: Path) -> None:
    corrections.write_text(HEAD + "sample 003,red,orange,yes\n")
    kept = CorrectionsFile(corrections, show.collection, {"sample 000": "qqqq", "sample 003": ""})
    kept.write(kept.read().decisions | {"sample 000": Decision("remove", -1)})
    assert [(row["sample"], row["content"]) for row in read(corrections)] == [
        ("sample 003", ""),
        ("sample 000", "qqqq"),
    ]
    assert [entry.content for entry in Corrections.load(corrections).entries] == ["", "qqqq"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"id": "nobody", "action": "keep"}, 422),
        ({"id": "sample 005", "action": "accept"}, 422),
        ({"id": "sample 000", "action": "accept", "node": -1}, 422),
        ({"id": "sample 000", "action": "accept", "node": 0}, 422),
        ({"id": "sample 000", "action": "accept", "node": 10**9}, 422),
        ({"id": "sample 000", "action": "delete"}, 422),
        ({"id": "x" * 200_000, "action": "keep"}, 413),
    ],
)
def test_decisions_that_are_none(client: TestClient, corrections: Path, content: Any, status: int) -> None:
    reply = post(client, **content)
    assert reply.status_code == status
    assert reply.json()["detail"]
    assert not corrections.exists()


def test_of_two_browsers_the_second_is_told(client: TestClient, corrections: Path) -> None:
    assert post(client, id="sample 000", action="accept", seen="").status_code == 200
    late = post(client, id="sample 000", action="keep", seen="")
    assert late.status_code == 409
    assert late.json()["item"]["decided_path"] == ["warm", "red"]
    assert post(client, id="sample 000", action="accept", seen="").status_code == 200  # the same twice
    assert [row["suggested"] for row in read(corrections)] == ["warm/red"]


def test_nothing_is_lost_when_many_decide_at_once(tmp_path: Path, corrections: Path) -> None:
    """Two processes' worth of reviews over one file, each with four threads."""
    shows = [make_show(tmp_path, corrections) for _ in range(2)]
    node = shows[0].collection.taxonomy.find("warm")

    def decide(show: Any, rows: range) -> None:
        for row in rows:
            show.review.decide(str(show.collection.ids[row]), Decision("accept", node), "")

    threads = [
        threading.Thread(target=decide, args=(show, range(4 * half + part, 40, 8)))
        for half, show in enumerate(shows)
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(row["sample"] for row in read(corrections)) == sorted(map(str, shows[0].collection.ids))


def test_what_others_wrote_into_the_file_stays(client: TestClient, corrections: Path, show: Any) -> None:
    corrections.write_text(
        "\ufeffwho;Sample;label;suggested;decision\nAnn;elsewhere;;some/where;x\n"
        "Bob;sample 003;;warm/orange;Yes\n"
        "Eve;sample 004;;warm/red;\n",
        encoding="utf-8",
    )
    assert post(client, id="sample 000", action="accept", seen="").status_code == 200
    rows = {row["sample"]: row for row in read(corrections)}
    assert (rows["elsewhere"]["suggested"], rows["elsewhere"]["who"]) == ("some/where", "Ann")
    assert (rows["sample 003"]["decision"], rows["sample 003"]["who"]) == ("Yes", "Bob")  # as Bob wrote it
    assert rows["sample 003"]["label"] == ""  # nobody decided anew
    assert (rows["sample 004"]["decision"], rows["sample 004"]["who"]) == ("", "Eve")
    assert rows["sample 000"]["suggested"] == "warm/red"
    with pytest.raises(Conflict):
        show.review.decide("sample 003", None, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sample\nx\n", "no column 'label'"),
        ("sample,label,suggested,decision,Label\n", "more than one column 'label'"),
        ("", "no column 'sample'"),
        (HEAD + '"a,b\n', "it is not CSV"),
        (HEAD + "\udc81,b\n", "line 2 is not UTF-8"),
    ],
)
def test_damaged_files_of_corrections(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "damaged.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=why):
        CorrectionsFile(path, make_collection(tmp_path, each=1))


def test_a_workbook_of_corrections_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "suspects.xlsx"
    write_workbook(path, {"suspects": (HEAD.strip().split(","), [])})
    with pytest.raises(DataError, match="it is a workbook, and decisions are written as CSV"):
        CorrectionsFile(path, make_collection(tmp_path, each=1))


def test_short_names_are_read_as_training_reads_them(show: Any, corrections: Path) -> None:
    corrections.write_text(HEAD + "sample 003,red,orange,yes\nsample 004,warm/red,cold > blue,yes\n")
    find = show.collection.taxonomy.find
    wanted = {
        "sample 003": Decision("accept", find("orange")),
        "sample 004": Decision("accept", find("blue")),
    }
    assert show.review.read().decisions == wanted
    ids, nodes = show.collection.ids.tolist(), torch.from_numpy(show.collection.nodes)
    applied = Corrections.load(corrections).resolve(ids, nodes, show.collection.taxonomy)
    assert {name: int(applied.nodes[ids.index(name)]) for name in wanted} == {
        name: one.node for name, one in wanted.items()
    }
    suspects = corrections.with_name("suspects.csv")
    suspects.write_text("sample,suggested\nsample 003,orange\n")
    assert [s.suggested for s in read_suspects(suspects, show.collection)] == [find("orange")]


BAD_ROWS = [
    ("sample 003,,nowhere,yes", "row 3 (sample 'sample 003'): label 'nowhere' is not in the taxonomy"),
    ("sample 003,,,yes", "row 3 (sample 'sample 003'): nothing is suggested that could be accepted"),
    ("sample 003,,warm,perhaps", "row 3 (sample 'sample 003'): the decision 'perhaps' is not one of accept"),
    ("elsewhere,,warm,perhaps", "row 3 (sample 'elsewhere'): the decision 'perhaps' is not one of accept"),
    (",,warm,yes", "row 3: the column 'sample' is empty"),
    (
        "sample 003,,warm,yes\nsample 003,,cold,yes",
        "row 4 (sample 'sample 003'): the sample has two corrections",
    ),
    (
        "sample 003,,warm,yes\nsample 003,,,remove",
        "row 4 (sample 'sample 003'): the sample has two corrections",
    ),
]


@pytest.mark.parametrize(("bad", "why"), BAD_ROWS)
def test_a_bad_row_is_told_and_stays_while_the_rest_goes_on(
    client: TestClient, corrections: Path, bad: str, why: str
) -> None:
    corrections.write_text(f"{HEAD}sample 012,,warm,yes\n{bad}\n")
    info = client.get("/api/info").json()
    assert len(info["problems"]) == 1
    assert info["problems"][0].startswith(f"'corrections.csv', {why}")
    assert info["decided"] == 1
    assert post(client, id="sample 000", action="keep", seen="").status_code == 200
    assert bad in corrections.read_text()
    if "sample 003" in bad:
        refused = post(client, id="sample 003", action="keep", seen="")
        assert (refused.status_code, why in refused.json()["detail"]) == (422, True)


def test_a_file_that_is_damaged_meanwhile_is_told_and_not_written(
    client: TestClient, corrections: Path
) -> None:
    corrections.write_text("nothing\nof that kind\n")
    assert "no column 'sample'" in client.get("/api/info").json()["problems"][0]
    reply = post(client, id="sample 000", action="keep", seen="")
    assert (reply.status_code, "no column 'sample'" in reply.json()["detail"]) == (422, True)
    assert corrections.read_text() == "nothing\nof that kind\n"


def test_rows_that_agree_are_no_conflict(client: TestClient, corrections: Path) -> None:
    same = "sample 003,,warm,yes\nsample 003,,warm,accept\nsample 004,,red,\nsample 004,,cold,x\n"
    corrections.write_text(HEAD + same)
    assert client.get("/api/info").json()["problems"] == []
    assert len(Corrections.load(corrections)) == 2
    assert post(client, id="sample 000", action="keep", seen="").status_code == 200
    assert same in corrections.read_text()  # nobody decided anew
    item = post(client, id="sample 004", action="undo", seen="accept 4").json()
    assert item["action"] is None
    assert [row["decision"] for row in read(corrections) if row["sample"] == "sample 004"] == ["", ""]


def test_a_label_that_is_kept_and_replaced_is_a_conflict(client: TestClient, corrections: Path) -> None:
    """One person has looked at it and kept it, another has not: neither is taken, here or in training."""
    corrections.write_text(HEAD + "sample 004,,red,keep\nsample 004,,cold,x\n")
    assert "row 3 (sample 'sample 004')" in client.get("/api/info").json()["problems"][0]
    with pytest.raises(DataError, match="rows 2 and 3 decide differently"):
        Corrections.load(corrections)


def test_the_queue_goes_on_after_a_suspect(client: TestClient) -> None:
    def rows(**params: Any) -> list[int]:
        return [item["sample"]["row"] for item in client.get("/api/review", params=params).json()["items"]]

    assert (rows(), rows(after=0), rows(after=12)) == ([0, 12], [12], [])
    assert post(client, id="sample 000", action="keep", seen="").status_code == 200
    assert rows(after=0) == [12]
    assert client.get("/api/review?after=5").status_code == 422


def test_a_search_that_ends_meanwhile_leaves_a_page_whole(show: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is of the suspects that it began with; another thread brings new ones when it likes."""

    class Slow(dict[str, Decision]):
        def __contains__(self, sample: object) -> bool:
            show.take_suspects([])
            return False

    monkeypatch.setattr(show.review, "read", lambda: Kept(Slow()))
    page = show.review_page("open", 0, 0, 20)
    assert ([item.sample.row for item in page.items], page.total) == ([0, 12], 2)
    assert show.review_page("open", 0, 0, 20).total == 0


def test_suspects_are_read_in_their_order(tmp_path: Path) -> None:
    it = make_collection(tmp_path, each=2)
    path = tmp_path / "suspects.csv"
    path.write_text("sample,suggested,reason,score\nsample 003,warm/red,why,0.5\nsample 001,x,,nan?\nz,,,\n")
    found = read_suspects(path, it)
    assert [(s.row, s.suggested, s.score) for s in found] == [
        (3, it.taxonomy.find("red"), 0.5),
        (1, -1, None),
    ]
    path.write_text("sample,suggested\nz,\n")
    with pytest.raises(DataError, match=r"no sample of .* is in the index"):
        read_suspects(path, it)


# Maps


def test_maps_are_computed_once(tmp_path: Path) -> None:
    it = make_collection(tmp_path / "data")
    maps = Maps(it, tmp_path / "maps")
    assert maps.start("t-SNE").state == "computing"
    for _ in range(600):
        if (found := maps.get("t-SNE")) is not None and list((tmp_path / "maps").glob("t-sne-*.npz")):
            break
        time.sleep(0.05)
    assert found is not None
    again = Maps(it, tmp_path / "maps")
    assert again.start("t-SNE").state == "ready"
    assert np.array_equal(again.get("t-SNE").points, found.points)  # type: ignore[union-attr]
    file = next((tmp_path / "maps").glob("*.npz"))
    file.write_bytes(file.read_bytes()[:100])
    assert Maps(it, tmp_path / "maps").get("t-SNE") is None
    other = make_collection(tmp_path / "data", version="2")
    assert Maps(other, tmp_path / "maps").get("t-SNE") is None


def test_samples_that_are_not_laid_out_stand_beside_their_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_LANDMARKS, "t-SNE", 32)
    it = make_collection(tmp_path, each=40)
    points = compute_map(it, "t-SNE").points
    labels = it.predictions
    assert labels is not None
    centres = np.stack([points[labels == node].mean(0) for node in np.unique(labels)])
    nearest = np.linalg.norm(points[:, None] - centres[None], axis=2).argmin(1)
    right = np.unique(labels)[nearest] == labels
    assert right.mean() > 0.9


def test_hyperbolic_samples_lie_in_a_disk(tmp_path: Path) -> None:
    it = make_collection(tmp_path)
    hyperbolic = make_collection(tmp_path, vectors=it.vectors * 0.8, geometry="poincare")
    found = compute_map(hyperbolic, "disk")
    assert np.linalg.norm(found.points, axis=1).max() < 1
    assert "distances from the centre are exact" in found.note
    assert Maps(hyperbolic, None).default == "disk"
    assert "disk" not in Maps(it, None).names


def wait_for(maps: Maps, name: str) -> str:
    maps.start(name)
    for _ in range(600):
        if (state := next(one for one in maps.states() if one.name == name)).state != "computing":
            break
        time.sleep(0.02)
    return f"{state.state} {state.problem}"


@pytest.mark.parametrize(("geometry", "metric"), [("sphere", "cosine"), ("euclidean", "euclidean")])
def test_umap_is_given_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, geometry: str, metric: str
) -> None:
    given: dict[str, Any] = {}

    class Umap:
        def __init__(self, **options: Any) -> None:
            given.update(options)

        def fit_transform(self, vectors: Any) -> Any:
            given["shape"] = vectors.shape
            return 7 * vectors[:, :2] + 3

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Umap))
    monkeypatch.setitem(_LANDMARKS, "UMAP", 32)
    it = make_collection(tmp_path, geometry=geometry)
    maps = Maps(it, None)
    assert wait_for(maps, "UMAP") == "ready "
    found = maps.get("UMAP")
    assert found is not None
    assert (given["metric"], given["random_state"], given["shape"]) == (metric, 0, (32, 8))
    assert found.points.shape == (40, 2)
    assert np.abs(found.points).max() <= 1
    assert found.note.startswith("UMAP; only neighbourhoods mean something")
    assert "32 samples were laid out" in found.note


def test_without_umap_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    maps = Maps(make_collection(tmp_path), None)
    assert wait_for(maps, "UMAP").startswith("failed the map UMAP needs umap-learn; install it with: pip")


def test_pca_does_not_wait_for_other_maps(tmp_path: Path) -> None:
    maps = Maps(make_collection(tmp_path), None)
    with maps._one:  # as while another is computed
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.append(maps.get("PCA")), daemon=True)
        asking.start()
        asking.join(60)
        assert found


def test_a_search_is_given_dials(tmp_path: Path) -> None:
    show = with_dials(make_show(tmp_path))
    with open_client(show) as client:
        assert client.get("/api/info").json()["dials"] == {"tree": 0.5, "instance": 1.0}
        asked = "/api/search/sample?row=5&k=3"
        plain, turned = (client.get(asked + more).json() for more in ("", "&tree=0.2"))
        assert plain["hits"][0]["sample"]["row"] != turned["hits"][0]["sample"]["row"]
        refused = client.get(f"{asked}&tree=7")
        assert refused.status_code == 422
        assert refused.json()["detail"] == "tree is 7.0; expected a number from 0 to 1"
    with open_client(make_show(tmp_path)) as client:
        assert client.get("/api/info").json()["dials"] is None
        none = client.get(f"{asked}&tree=0.2")
        assert none.status_code == 422
        assert "has no dials" in none.json()["detail"]
