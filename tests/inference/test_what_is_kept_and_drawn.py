"""What is drawn of bulk samples, kept of extensions and refused on the way to a hub, each by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.decisions.drift import Seen
from labeltree.errors import DataError
from labeltree.inference import run_embeddings
from labeltree.inference.bulk.likeness import DRAWN, PartDraw, tell_drift
from labeltree.inference.decider import Decider
from labeltree.inference.hub.push_export import _explained, _refuse_places
from labeltree.inference.named_samples import check_width
from labeltree.inference.predict import Request, _open
from labeltree.inference.reference import is_merged
from labeltree.inference.training_samples import save_learned
from labeltree.runs import EmbeddingTable
from labeltree.runs.run_folder import RunFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a", "b", "c"])


def rows(numbers: Sequence[int]) -> EmbeddingTable:
    return EmbeddingTable(torch.tensor(numbers)[:, None].float(), torch.full((len(numbers),), 1))


def test_a_part_is_drawn_evenly_and_in_its_order() -> None:
    """Whatever the batches; the first samples of a part are no more likely than the others."""
    drawn = []
    for sizes in ((1000,), (300, 1, 699)):
        draw = PartDraw(SimpleNamespace(), 3)  # type: ignore[arg-type]
        start = 0
        for size in sizes:
            draw.add(rows(range(start, start + size)))
            start += size
        drawn.append([int(number) for table in draw._tables for number in table.embeddings[:, 0]])
    assert drawn[0] == drawn[1] == sorted(drawn[0])
    assert len(drawn[0]) == DRAWN
    expected = np.sort(np.random.default_rng(3).random(1000).argsort()[:DRAWN])
    assert drawn[0] == expected.tolist()


@pytest.mark.parametrize(("alarms", "said"), [(True, "they differ"), (False, None)])
def test_drift_is_told_only_where_it_alarms(alarms: bool, said: str | None) -> None:
    seen: list[Seen] = []

    def test(batch: Seen) -> Any:
        seen.append(batch)
        return SimpleNamespace(sentence=lambda: "they differ", alarms=lambda: alarms)

    rule: Any = SimpleNamespace(held=SimpleNamespace(groups=None), test=test)
    notes = [{"distance": [0.25], "certainty": [0.5]}, {}, {"distance": [0.75, 1], "certainty": [1, 0]}]
    assert tell_drift(rule, notes) == said
    assert seen[0].distance.tolist() == [0.25, 0.75, 1]
    assert seen[0].certainty.tolist() == [0.5, 1, 0]
    assert tell_drift(None, notes) is None


def test_later_classes_with_a_calibration_sample_are_promised() -> None:
    decider = object.__new__(Decider)
    fitted = SimpleNamespace(labels=torch.tensor([1, 2]))
    vars(decider).update(
        rule=SimpleNamespace(fitted=fitted, classes=SimpleNamespace(nodes=torch.tensor([1, 2, 3]))),
        record={"later_classes": [2, 3]},
    )
    assert decider.unpromised.tolist() == [3]


@pytest.mark.parametrize(
    ("files", "merged"),
    [
        (("ridge",), True),
        (("ridge", "recipe"), False),
        (("ridge", "extension"), False),
        (("recipe",), False),
        ((), False),
    ],
)
def test_which_folders_were_merged(files: tuple[str, ...], merged: bool, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name in files:
        file = getattr(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    assert is_merged(folder) is merged


def test_an_extension_keeps_what_it_learned_from(tmp_path: Path) -> None:
    table = EmbeddingTable(
        torch.arange(6.0)[:, None].expand(6, 2),
        torch.tensor([1, 1, 2, 2, 3, 3]),
        split=np.array(["train", "val", "train", "calib", "val", "train"]),
        instances=torch.arange(6),
    )
    run: Any = SimpleNamespace(weights_digest="w", taxonomy=TREE)
    folder = RunFolder(tmp_path)
    save_learned(run, table, "more", folder)
    kept = EmbeddingTable.load(folder.learned, TREE)
    assert kept.embeddings[:, 0].tolist() == [0, 2, 5]
    assert kept.nodes.tolist() == [1, 2, 3]


def test_vectors_of_another_length_are_told_with_both() -> None:
    home = SimpleNamespace(path=Path("runs/birds"))
    encoder = SimpleNamespace(without_adapter=SimpleNamespace(feature_dim=1280))
    run: Any = SimpleNamespace(folder=SimpleNamespace(home=home), network=SimpleNamespace(encoder=encoder))
    check_width(run, SimpleNamespace(what="'v.npy'", width=1280))  # type: ignore[arg-type]
    said = "'v.npy' holds vectors of 512 numbers, but the run in 'runs/birds' was trained on 1,280;"
    with pytest.raises(DataError, match=said):
        check_width(run, SimpleNamespace(what="'v.npy'", width=512))  # type: ignore[arg-type]


def test_places_of_this_disk_are_not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the home of the user nor the folder above the export, but a name that begins alike is."""
    home, folder = tmp_path / "home" / "ada", tmp_path / "work" / "export"
    monkeypatch.setattr(Path, "home", lambda: home)
    for place in (home, tmp_path / "work"):
        with pytest.raises(DataError, match=r"README\.md names a place on this disk"):
            _refuse_places("README.md", f"made from {place}/photos", folder)
    _refuse_places("README.md", f"made from {home}2 and {folder.name}", folder)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "does not take 'me/birds': it does not know the token"),
        (403, "does not take 'me/birds': the token may not write to 'me/birds'"),
        (404, "does not take 'me/birds': the token may not write to 'me/birds'"),
        (500, "try again later"),
    ],
)
def test_what_a_hub_answers_is_explained(status: int, said: str) -> None:
    httpx = pytest.importorskip("httpx")
    errors = pytest.importorskip("huggingface_hub.errors")
    response = httpx.Response(status, request=httpx.Request("POST", "http://127.0.0.1/api"))
    with pytest.raises(DataError, match=said), _explained("me/birds"):
        raise errors.HfHubHTTPError("no", response=response)


@pytest.mark.parametrize(("split", "opened"), [(None, "test"), ("val", "val")])
def test_the_split_that_is_answered(split: str | None, opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test split, unless another is asked for."""
    from labeltree.inference import predict

    asked: list[str] = []

    class Own:
        def of_split(self, name: str) -> Own:
            asked.append(name)
            return self

    monkeypatch.setattr(predict, "name_samples", lambda source, *rest, **named: source)
    monkeypatch.setattr(predict, "replace", lambda source, **changes: source)
    decider: Any = SimpleNamespace(run=SimpleNamespace(source=Own()))
    _open(decider, Request(split=split))
    assert asked == [opened]


def test_a_kept_table_is_made_anew_where_samples_are_verified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept, made = rows([1, 2]), rows([3, 4])
    kept.save(tmp_path / "trained.npz", TREE)
    monkeypatch.setattr(run_embeddings, "_is_kept", lambda name, run: True)
    monkeypatch.setattr(run_embeddings, "_make_table", lambda name, run, progress: made)
    source = SimpleNamespace(attributes={}, groups=None, group_names=None)
    folder = SimpleNamespace(embeddings=lambda name: tmp_path / f"{name}.npz")
    run: Any = SimpleNamespace(source=source, folder=folder, taxonomy=TREE, weights_digest="w")
    found = [run_embeddings._kept_table("trained", run, None, verify=verify) for verify in (False, True)]
    of_both = [kept.embeddings.tolist(), made.embeddings.tolist()]
    assert [table.embeddings.tolist() for table in found] == of_both
    again = run_embeddings._kept_table("trained", run, None, verify=False)
    assert again.embeddings.tolist() == made.embeddings.tolist(), "what was made is kept"
