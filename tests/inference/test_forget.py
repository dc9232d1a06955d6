"""A solved run that forgets samples: its head, and that no file holds a trace of them."""

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError
from labeltree.index.index_changes import forget_rows
from labeltree.index.index_rows import IndexRows
from labeltree.inference.forgetting import Chosen, choose_samples
from labeltree.inference.load_run import load_run
from labeltree.ridge import fit_tree_ridge
from labeltree.ridge.ridge_file import load_ridge
from labeltree.runs import RunFolder, SampleRecord
from sweeps import long_unless

pytestmark = pytest.mark.slow

PATHS = np.array(["animal/dog", "animal/cat", "plant/oak", "plant/fern"])
COUNT = 240
GONE = "Maria-Müller-1984"


def write(path: Path, rows: np.ndarray | None = None, name: str = GONE) -> Path:
    """Vectors with ids, two of a patient; the 10th is called `name`."""
    classes = np.arange(COUNT) // 2 % 4
    rng = np.random.default_rng(0)
    telling = rng.normal(size=(4, 7))[classes] + rng.normal(size=(COUNT, 7))
    silent = 0.1 * rng.normal(size=(COUNT, 40))  # at unit variance they would say as much as the others
    vectors = np.concatenate([telling, silent], 1).astype(np.float32)
    ids = np.array([f"sample-{row:04}" for row in range(COUNT)], dtype="<U20")
    ids[9] = name
    patient = np.arange(COUNT) // 6
    split = np.array(["train", "train", "train", "val", "test"])[patient % 5]
    groups = np.array([f"patient {number}" for number in patient])
    columns = {"vectors": vectors, "labels": PATHS[classes], "ids": ids, "splits": split, "groups": groups}
    kept = np.arange(COUNT) if rows is None else rows
    np.savez(path, **{key: column[kept] for key, column in columns.items()})
    return path


def solve(data: Path, out: Path, **settings: object) -> Path:
    return lt.train(data, "tree-ridge", out=out, accelerator="cpu", progress_bar=False, **settings).path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a run, an index of it and what commands write into it."""
    folder = tmp_path_factory.mktemp("forget")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LABELTREE_DATA", str(folder / "cache"))
        run = solve(write(folder / "features.npz"), folder / "run")
        lt.evaluate(run, resamples=0)
        assert main(["suspects", str(run), "--quiet"]) == 0
        with (run / "suspects.csv").open(newline="", encoding="utf-8") as file:
            names = csv.DictReader(file).fieldnames or []
        with (run / "suspects.csv").open("a", newline="", encoding="utf-8") as file:
            row = {"sample": GONE, "label": "animal/dog", "decision": "keep"}
            other = {**dict.fromkeys(names, GONE), "sample": "sample-0003", "label": "", "decision": "keep"}
            csv.DictWriter(file, names).writerows([row, {**other, "suggested": "", "content": ""}])
        (run / "on-other").mkdir()  # an evaluation on another version of the taxonomy
        (run / "on-other" / "metrics.json").write_text(json.dumps({"sample": GONE}), "utf-8")
        index = lt.make_index(run)
        for number in range(3):  # further versions
            index.add(IndexRows([f"more {number}"], torch.rand(1, index.settings.dim).numpy(), np.array([1])))
    return folder


@pytest.fixture
def run(solved: Path, tmp_path: Path) -> Path:
    for name in ("run", "cache"):
        if (solved / name).exists():
            shutil.copytree(solved / name, tmp_path / name)
    shutil.copy(solved / "features.npz", tmp_path)
    command = ["train", "--data", tmp_path / "features.npz", "--objective", "tree-ridge", "--out"]
    assert main([*map(str, command), str(tmp_path / "run"), "--accelerator", "cpu", "--quiet"]) == 0
    return tmp_path / "run"


def contents(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    """The bytes of all files, and those of the members of archives."""
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if not file.is_file():
                continue
            yield file, file.read_bytes()
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:
                    yield from ((file / name, archive.read(name)) for name in archive.namelist())


def needles(*arrays: np.ndarray, names: tuple[str, ...] = (GONE,)) -> list[bytes]:
    """What the names and vectors of samples look like in files."""
    texts = [name.encode(how) for name in names for how in ("utf-8", "utf-16-le", "utf-32-le", "utf-16-be")]
    texts += [json.dumps(name)[1:-1].encode() for name in names]
    unit = [array / np.linalg.norm(array) for array in arrays]
    kinds = [kind(0).dtype for kind in (np.float16, np.float32, np.float64)]
    return texts + [array.astype(kind).tobytes() for array in (*arrays, *unit) for kind in kinds]


def holders(wanted: list[bytes], *folders: Path) -> set[str]:
    return {str(path) for path, content in contents(*folders) if any(one in content for one in wanted)}


def vector(file: Path, row: int = 9) -> np.ndarray:
    return np.load(file)["vectors"][row]


def head_of(run: Path) -> lt.ridge.TreeRidge:
    loaded = load_run(run, own_data=False)
    return load_ridge(loaded.folder.ridge, loaded.taxonomy)


def assert_same_sums(head: lt.ridge.TreeRidge, other: lt.ridge.TreeRidge, within: float = 1e-9) -> None:
    assert torch.equal(head.moments.labels, other.moments.labels)
    for name in ("counts", "sums", "products"):
        mine, theirs = getattr(head.moments, name), getattr(other.moments, name)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=within)
    assert head.penalty == other.penalty
    for name in ("weight", "bias", "calibration"):
        torch.testing.assert_close(getattr(head, name), getattr(other, name), rtol=1e-8, atol=1e-8)


def test_no_file_holds_the_sample(run: Path, tmp_path: Path) -> None:
    wanted = needles(vector(tmp_path / "features.npz"))
    before = holders(wanted, run, tmp_path / "cache")
    for name in (
        "samples.npz",
        "reference.safetensors",
        "embeddings/trained.npz",
        "suspects.csv",
        "on-other",
        "index/rows.lance",
    ):
        assert any(name in path for path in before), name
    forgotten = lt.forget(run, samples=[GONE])
    assert forgotten.samples == {"train": 1}
    assert forgotten.solved
    assert {"metrics.json", "outcomes.npz", "report.html"} <= set(forgotten.removed)
    assert holders(wanted, run, tmp_path / "cache") == set()
    assert "sample-0003" in (run / "suspects.csv").read_text("utf-8")
    assert any("not looked for" in note for note in forgotten.notes)


def test_the_head_is_that_of_the_others_at_the_same_settings(run: Path, tmp_path: Path) -> None:
    before = head_of(run)
    lt.forget(run, samples=[GONE])
    data = np.load(tmp_path / "features.npz")
    train = (data["splits"] == "train") & (data["ids"] != GONE)
    taxonomy = RunFolder(run).load_taxonomy()
    groups = torch.from_numpy(np.unique(data["groups"], return_inverse=True)[1])[train]
    expected, _ = fit_tree_ridge(
        torch.from_numpy(data["vectors"][train]),
        taxonomy.encode(data["labels"][train].tolist()),
        taxonomy,
        groups=groups,
        tree=before.tree,
        instance=before.instance,
        penalty=before.penalty,
    )
    head = head_of(run)
    assert_same_sums(head, expected)
    row = torch.from_numpy(data["vectors"][9:10])
    label = taxonomy.encode([data["labels"][9]])
    taken = before.forget(row, label)  # the same from the sums alone
    torch.testing.assert_close(head.weight, taken.weight, rtol=0, atol=1e-9)
    answers = load_run(run, own_data=False).network.objective.solver
    torch.testing.assert_close(answers.weight.double(), head.scale * head.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("deleted", long_unless([False, True], [True]))
def test_everything_goes_on_without_the_sample(run: Path, tmp_path: Path, deleted: bool) -> None:
    data = tmp_path / "features.npz"
    wanted = needles(vector(data))
    lt.forget(run, samples=[GONE, "sample-0018", "sample-0024"])
    if deleted:
        write(data, np.setdiff1d(np.arange(COUNT), [9, 18, 24]))
    assert RunFolder(run).load_samples().forgotten == 3
    assert json.loads((run / "data.json").read_text())["splits"]["val"]["samples"] == 47
    lt.evaluate(run, resamples=0)
    lt.make_index(run, overwrite=True)
    (run / "suspects.csv").unlink()  # decisions are not overwritten
    assert main(["suspects", str(run), "--quiet"]) == 0
    assert holders(wanted, run, tmp_path / "cache") == set()
    assert GONE not in lt.Index.open(run).rows()["id"].to_pylist()


def test_groups_and_lists(run: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"sample-0100\n\n{GONE}\n", "utf-8")
    forgotten = lt.forget(run, groups=["patient 3"], listed=tmp_path / "list.txt")
    assert forgotten.samples == {"train": 2, "val": 6}
    names = set(RunFolder(run).load_samples().names or ())
    assert not names & {GONE, "sample-0100", *(f"sample-{row:04}" for row in range(18, 24))}
    assert head_of(run).moments.count == 142
    again = lt.forget(run, groups=["patient 4"])  # with groups of the data: the embeddings are made anew
    assert again.samples == {"test": 6}


def test_a_test_sample_leaves_the_head_as_it_is(run: Path) -> None:
    before = (run / "encoder.safetensors").read_bytes(), (run / "ridge.safetensors").read_bytes()
    forgotten = lt.forget(run, samples=["sample-0024"])
    assert not forgotten.solved
    assert ((run / "encoder.safetensors").read_bytes(), (run / "ridge.safetensors").read_bytes()) == before
    assert not (run / "report.html").exists()


def test_unknown_samples_and_groups_are_named(run: Path) -> None:
    with pytest.raises(
        DataError, match=r"'sample-004' is not a sample of the run in .* did you mean 'sample-0"
    ):
        lt.forget(run, samples=["sample-004"])
    with pytest.raises(
        DataError, match=r"'patient 99' is not a group of the run .* did you mean 'patient 9'"
    ):
        lt.forget(run, groups=["patient 99"])
    with pytest.raises(ValueError, match="nothing to forget"):
        lt.forget(run)
    with pytest.raises(DataError, match="no list of samples"):
        lt.forget(run, listed="nowhere.txt")
    assert main(["forget", str(run), "--sample", "nobody"]) == 2


def test_two_classes_have_to_stay(run: Path, tmp_path: Path) -> None:
    data = np.load(tmp_path / "features.npz")
    others = data["ids"][data["labels"] != "plant/oak"].tolist()
    before = dict(contents(run))
    with pytest.raises(DataError, match=r"cannot do without these samples: .*two classes"):
        lt.forget(run, samples=others)
    after = {path: content for path, content in contents(run) if path.name != ".lock"}
    assert after == before


def test_an_index_elsewhere(run: Path, tmp_path: Path) -> None:
    wanted = needles(vector(tmp_path / "features.npz"))
    shutil.move(run / "index", tmp_path / "elsewhere")
    lt.Index.open(tmp_path / "elsewhere").search_id(GONE)  # makes the matrix of exact search
    lt.Index.open(tmp_path / "elsewhere").replace(
        IndexRows(
            ["sample-0001"], np.ones((1, lt.Index.open(tmp_path / "elsewhere").settings.dim)), np.array([1])
        )
    )
    assert holders(wanted, tmp_path / "elsewhere")
    lt.forget(run, samples=[GONE])
    assert holders(wanted, tmp_path / "elsewhere")
    lt.forget(run, samples=[GONE], indexes=[tmp_path / "elsewhere"])  # the run has forgotten it already
    assert not holders(wanted, tmp_path / "elsewhere", run)
    assert len(lt.Index.open(tmp_path / "elsewhere")) == COUNT + 3 - 1


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("step", [0, 2, 5])
@pytest.mark.long
def test_who_opens_a_run_finishes_the_change_of_a_killed_process(
    run: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from labeltree.runs import change_at_once

    head = head_of(run)
    calls = 0

    class Stopping:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def replace(self, *paths: object) -> None:
            nonlocal calls
            calls += 1
            if calls > step:
                raise _Killed
            os.replace(*paths)

    monkeypatch.setattr(change_at_once, "os", Stopping())
    try:
        lt.forget(run, samples=[GONE])
        assert step >= 5
    except _Killed:
        pass
    monkeypatch.undo()
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    folder = RunFolder(run).require()
    assert GONE not in (folder.load_samples().names or ())
    assert head_of(run).moments.count == head.moments.count - 1
    lt.evaluate(run, resamples=0)
    assert not holders(needles(vector(tmp_path / "features.npz")), run, tmp_path / "cache")


def test_a_kill_before_the_change_is_decided(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "change", killed)
        with pytest.raises(_Killed):
            lt.forget(run, samples=[GONE])
    assert GONE in (RunFolder(run).load_samples().names or ())
    assert (run / "report.html").is_file()
    lt.forget(run, samples=[GONE])  # gone from the index already
    assert not holders(needles(vector(tmp_path / "features.npz")), run, tmp_path / "cache")


def test_images_and_their_features_in_the_cache(image_folder: Path, tmp_path: Path) -> None:
    data = shutil.copytree(image_folder, tmp_path / "photos")
    settings = {"encoder": "small-conv", "image_size": 28, "val": 0.2, "test": 0.2}
    path = solve(data, tmp_path / "run", **settings)
    other = solve(data, tmp_path / "other", **settings)
    loaded = load_run(path)
    training = loaded.source.of_split("train")
    name = training.sample_names()[0]
    pixels = training.load(torch.tensor([0])).numpy().tobytes()
    features = np.load(path / "embeddings" / "trained.npz")
    row = int(np.flatnonzero(features["instances"] == int(training.instances[0]))[0])
    wanted = [pixels, *needles(features["features"][row], names=(name,))]
    assert any("features" in path for path in holders(wanted, tmp_path / "cache"))
    assert any("images" in path for path in holders(wanted, tmp_path / "cache"))
    stored = {path: path.stat().st_size for path in (tmp_path / "cache").rglob("*.features")}
    lt.forget(path, samples=[name])
    assert not holders(wanted, path, tmp_path / "cache")
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*.features")) < sum(
        stored.values()
    )
    (data / name).unlink()
    lt.evaluate(path, resamples=0)
    assert not holders(wanted, path, tmp_path / "cache")
    with pytest.raises(RunError, match="gone"):
        lt.evaluate(other)


def test_refused_runs(run: Path, tmp_path: Path) -> None:
    data = tmp_path / "features.npz"
    trained = lt.train(
        data, "supcon", out=tmp_path / "steps", epochs=1, accelerator="cpu", progress_bar=False
    )
    with pytest.raises(RunError, match="trained by steps"):
        lt.forget(trained.path, samples=[GONE])
    space = lt.train(
        data, "ce", out=tmp_path / "space", space="posterior", epochs=1, accelerator="cpu", progress_bar=False
    )
    kept = space.encoder.read_bytes()
    with pytest.raises(RunError, match="trained by steps"):  # it has sums, but not of all that it learned
        lt.forget(space.path, samples=[GONE])
    assert space.encoder.read_bytes() == kept
    lt.export(run, tmp_path / "model")
    with pytest.raises(RunError, match="without a record of its samples"):
        lt.forget(tmp_path / "model", samples=[GONE])
    lt.extend(run, retire=["plant/oak"])
    with pytest.raises(RunError, match="was extended"):
        lt.forget(run, samples=[GONE])


def test_means_and_scales_of_standardised_vectors_are_those_of_the_others(tmp_path: Path) -> None:
    data = dict(np.load(write(tmp_path / "features.npz")))
    noise = np.random.default_rng(3).normal(size=(COUNT, 3)) * 1000
    np.savez(tmp_path / "wide.npz", **{**data, "vectors": np.concatenate([data["vectors"], noise], 1)})
    path = solve(tmp_path / "wide.npz", tmp_path / "run")
    before = load_run(path)
    assert bool((before.network.encoder.scale != 1).all())
    penalty = load_ridge(before.folder.ridge, before.taxonomy).penalty
    lt.forget(path, samples=[GONE])
    loaded = load_run(path)
    encoder, training = loaded.network.encoder, loaded.source.of_split("train")
    assert len(training) == len(before.source.of_split("train")) - 1
    vectors = training.vectors.load(training.rows).double()
    torch.testing.assert_close(encoder.centre.double(), vectors.mean(0), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(encoder.scale.double(), 1 / vectors.std(0, correction=0), rtol=1e-6, atol=0)
    head = load_ridge(loaded.folder.ridge, loaded.taxonomy)
    features = encoder(training.vectors.load(training.rows))
    sets = training.nodes if training.label_sets is None else training.label_sets
    expected, _ = fit_tree_ridge(
        features, sets, loaded.taxonomy, groups=training.groups, penalty=penalty, seed=loaded.recipe.seed
    )
    torch.testing.assert_close(head.weight, expected.weight, rtol=0, atol=1e-8)
    torch.testing.assert_close(head.calibration, expected.calibration, rtol=0, atol=1e-6)
    assert head.penalty == penalty


def test_corrections_lose_their_rows(tmp_path: Path) -> None:
    data = write(tmp_path / "features.npz")
    table = tmp_path / "decided.csv"
    rows = [[GONE, "animal/cat", "animal/dog", "accept", ""], ["sample-0002", "animal/cat", "", "remove", ""]]
    labels = dict(zip(np.load(data)["ids"].tolist(), np.load(data)["labels"].tolist(), strict=True))
    out = io.StringIO()
    csv.writer(out).writerows([["sample", "label", "suggested", "decision", "content"],
                               *[[row[0], labels[row[0]], *row[2:]] for row in rows]])  # fmt: skip
    table.write_text(out.getvalue(), "utf-8")
    path = solve(data, tmp_path / "run", corrections=str(table))
    lt.forget(path, samples=[GONE])
    assert not holders(needles(vector(data)), path)
    lt.evaluate(path, resamples=0)  # the file of the recipe still has the row
    lt.forget(path, samples=["sample-0002"])  # which a correction has removed
    assert not holders(needles(names=("sample-0002",)), path)
    lt.evaluate(path, resamples=0)


def test_the_row_of_a_table_is_taken_from_those_that_are_not_used(tmp_path: Path) -> None:
    """Rows are named by their lines there, which are not their numbers: a header and a title stand above."""
    rng = np.random.default_rng(0)
    lines = ["Plants and animals", "label,a,b,c"]
    for row in range(80):
        numbers = rng.normal(size=3) + row % 4
        label = "" if row in (10, 12) else PATHS[row % 4]
        lines.append(",".join([label, *(f"{number:.3f}" for number in numbers)]))
    (tmp_path / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    run = solve(tmp_path / "table.csv", tmp_path / "run")
    unused = RunFolder(run).unused_rows
    listed = [row["row"] for row in csv.DictReader(unused.open(encoding="utf-8"))]
    assert listed == ["13", "15"]
    lt.forget(run, samples=["line 15"])
    assert [row["row"] for row in csv.DictReader(unused.open(encoding="utf-8"))] == ["13"]


def test_the_id_of_a_row_that_is_not_used_is_taken_out(tmp_path: Path) -> None:
    data = dict(np.load(write(tmp_path / "features.npz")))
    data["labels"][[3, 5]] = ""
    np.savez(tmp_path / "features.npz", **data)
    run = solve(tmp_path / "features.npz", tmp_path / "run")
    unused = RunFolder(run).unused_rows
    listed = [(row["row"], row["id"]) for row in csv.DictReader(unused.open(encoding="utf-8"))]
    assert listed == [("4", "sample-0003"), ("6", "sample-0005")]
    lt.forget(run, samples=["sample-0003"])
    assert [row["id"] for row in csv.DictReader(unused.open(encoding="utf-8"))] == ["sample-0005"]


def test_equal_samples_keep_their_features(tmp_path: Path) -> None:
    from labeltree.training.features.feature_store import FeatureStore, forget_features

    store = FeatureStore(tmp_path / "features" / "key", 3)
    digests = np.arange(64, dtype=np.uint8).reshape(4, 16)
    store.add(digests, [torch.arange(12.0).reshape(4, 3)])
    store.add(digests[:1] + 100, [torch.ones(1, 3)])
    assert forget_features(tmp_path / "features", digests[1:2]) == 1
    assert forget_features(tmp_path / "features", digests[:1] + 100) == 1
    left = FeatureStore(tmp_path / "features" / "key", 3)
    places = left.places(digests)
    assert (places[:, 0] >= 0).tolist() == [True, False, True, True]
    assert left.take(places[[0, 2, 3]]).tolist() == [[0, 1, 2], [6, 7, 8], [9, 10, 11]]


def test_several_inner_and_missing_labels_under_a_coarser_taxonomy(tmp_path: Path) -> None:
    data = dict(np.load(write(tmp_path / "features.npz")))
    labels = np.stack([data["labels"], np.full(COUNT, "", dtype=data["labels"].dtype)], 1)
    labels[:3, 0], labels[3:5, 0], labels[6:9, 1] = "animal", "", "plant/oak"
    np.savez(tmp_path / "several.npz", **{**data, "labels": labels})
    path = solve(tmp_path / "several.npz", tmp_path / "run", coarsen=1)
    before = head_and_taxonomy(path)[0]
    lt.forget(path, samples=[GONE, "sample-0001", "sample-0003", "sample-0007"])
    head, training = head_and_taxonomy(path)
    loaded = load_run(path)
    train = loaded.source.of_split("train")
    sets = train.label_sets
    assert sets is not None
    parts = loaded.taxonomy.ancestors[sets.clamp_min(0), 1]
    top = torch.where(sets < 0, -1, parts)
    names = [loaded.taxonomy.path_name(node) if node > 0 else "" for node in top.flatten().tolist()]
    nodes = torch.tensor([training.find(name) if name else -1 for name in names]).reshape(top.shape)
    expected = lt.ridge.Moments.of(train.vectors.load(train.rows), nodes)
    assert head.moments.count == before.moments.count - 3  # one had no label
    torch.testing.assert_close(head.moments.products, expected.products, rtol=0, atol=1e-9)
    assert torch.equal(head.moments.labels, expected.labels)


def head_and_taxonomy(run: Path) -> tuple[lt.ridge.TreeRidge, lt.Taxonomy]:
    loaded = load_run(run, own_data=False)
    training = loaded.training_taxonomy or loaded.taxonomy
    return load_ridge(loaded.folder.ridge, training), training


def test_an_encoder_that_a_run_has_trained_on_the_samples(image_folder: Path, tmp_path: Path) -> None:
    sizes = {"encoder": "small-conv", "image_size": 28, "val": 0.2, "test": 0.2}
    first = lt.train(
        image_folder,
        "supcon",
        out=tmp_path / "first",
        epochs=1,
        accelerator="cpu",
        progress_bar=False,
        **sizes,
    )
    path = solve(image_folder, tmp_path / "run", weights=str(first.path), **sizes)
    record = RunFolder(path).load_samples()
    trained = record.ids[int(np.flatnonzero(record.split == "train")[0])]
    with pytest.raises(RunError, match=r"trained by the run in .*first.* \(weights\), on 1 of these samples"):
        lt.forget(path, samples=[trained])
    shutil.rmtree(first.path)
    with pytest.raises(RunError, match="nothing there says which samples"):
        lt.forget(path, samples=[trained])


def test_samples_that_share_a_name_are_forgotten_together(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    numbers = np.arange(4)
    SampleRecord(
        instances=numbers,
        nodes=numbers,
        split=np.full(4, "train"),
        names=["a.png", "b.png", "a.png", "c.png"],
        digests=np.stack([numbers.astype(np.uint8)] * 16, 1),
        given_split=np.full(4, ""),
    ).save(folder.samples)

    def chosen(*names: str, groups: tuple[str, ...] = ()) -> list[int]:
        some = choose_samples(
            folder,
            names,
            groups,
            elsewhere=lambda ids: set(ids) & {"only in an index"},
            group_names=lambda: np.array(["x", "x", "y", ""]),
        )
        assert len(some.rest) == 4 - int(some.gone.sum())
        return np.flatnonzero(some.gone).tolist()

    assert folder.load_samples().ids == ["a.png #0", "b.png", "a.png #2", "c.png"]
    assert chosen("a.png") == [0, 2]
    assert chosen("b.png", "only in an index") == [1]
    assert chosen("only in an index") == []
    assert chosen("a.png", groups=("x",)) == [0, 1, 2]
    for wrong in ("a.png #2", "a.png #0"):
        with pytest.raises(DataError, match="told apart by their order alone"):
            chosen(wrong)
    with pytest.raises(DataError, match="told apart by their order alone"):
        chosen(groups=("x",))


def test_an_index_with_an_approximate_search(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(1200, 16)).astype(np.float32)
    tree = lt.Taxonomy.from_paths([("a",), ("b",)])
    ids = [f"row {number}" for number in range(1200)]
    rows = IndexRows(ids, vectors, np.ones(1200, np.int64))
    index = lt.Index.create(tmp_path / "index", rows, taxonomy=tree)
    index.tune()
    index.search(vectors[:2], k=3)
    wanted = needles(vectors[7], names=("row 777",))
    assert holders(wanted, tmp_path / "index")
    assert forget_rows(tmp_path / "index", ["row 7", "row 777", "unknown"]) == 2
    assert not holders(wanted, tmp_path / "index", tmp_path / "cache")
    left = lt.Index.open(tmp_path / "index")
    assert len(left) == 1198
    assert left.search(vectors[[8]], k=1)[0].ids == ["row 8"]


def test_contents_that_others_keep_are_not_forgotten() -> None:
    """A copy of a sample that stays is still what the cache has it for."""
    digests = np.array([[1], [2], [1], [3], [3]], np.uint8).repeat(16, axis=1)
    record = SampleRecord(np.arange(5), np.ones(5, np.int64), np.array(["train"] * 5), digests=digests)
    gone = np.array([True, True, False, True, True])
    assert Chosen(record, gone, frozenset()).digests[:, 0].tolist() == [2, 3, 3]
