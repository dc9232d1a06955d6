"""Solved runs of several sites as one model, from their sums."""

from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError
from labeltree.inference import merging
from labeltree.inference.load_run import load_run
from labeltree.inference.merging import pooled_head
from labeltree.ridge import TreeRidge, fit_tree_ridge
from labeltree.ridge.ridge_file import load_ridge
from labeltree.runs import EmbeddingTable, RunFolder
from sweeps import long_unless, some_now

PATHS = np.array(["animal/dog", "animal/cat", "plant/oak", "plant/fern"])
TREE = lt.Taxonomy.from_paths([tuple(path.split("/")) for path in PATHS])
COUNT = 120


def write(path: Path, site: int, **changed: object) -> Path:
    """Vectors of a site; columns that say nothing are small, so that none is standardised."""
    rng = np.random.default_rng(site)
    classes = np.arange(COUNT) % 4
    telling = np.random.default_rng(9).normal(size=(4, 7))[classes] + rng.normal(size=(COUNT, 7))
    vectors = np.concatenate([telling, 0.1 * rng.normal(size=(COUNT, 40))], 1).astype(np.float32)
    split = np.array(["train", "train", "train", "val", "test"])[np.arange(COUNT) // 4 % 5]
    names = np.array([f"site {site} sample {row}" for row in range(COUNT)])
    columns = {"vectors": vectors, "labels": PATHS[classes], "ids": names, "splits": split, **changed}
    np.savez(path, **columns)
    return path


def solve(data: Path, out: Path, **settings: object) -> Path:
    return lt.train(data, "tree-ridge", out=out, accelerator="cpu", progress_bar=False, **settings).path


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("sites")
    return [solve(write(folder / f"{site}.npz", site), folder / f"site{site}") for site in (1, 2, 3)]


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another site, with the classes in the opposite order."""
    folder = tmp_path_factory.mktemp("turned")
    data = np.load(write(folder / "4.npz", 4))
    np.savez(folder / "4.npz", **{name: data[name][::-1] for name in data.files})
    return solve(folder / "4.npz", folder / "site4")


def training(site: Path, tree: lt.Taxonomy = TREE) -> tuple[torch.Tensor, torch.Tensor]:
    data = np.load(site.parent / f"{site.name[-1]}.npz")
    rows = data["splits"] == "train"
    return torch.from_numpy(data["vectors"][rows]), tree.encode(data["labels"][rows].tolist())


@pytest.mark.slow
def test_a_merged_model_is_that_of_all_samples(sites: list[Path], tmp_path: Path) -> None:
    merged = lt.merge(sites, out=tmp_path / "all")
    head = load_ridge(RunFolder(tmp_path / "all").ridge, TREE)
    first = load_ridge(RunFolder(sites[0]).ridge, TREE)
    vectors, nodes = (torch.cat(parts) for parts in zip(*map(training, sites), strict=True))
    expected = TreeRidge.of(
        lt.ridge.Moments.of(vectors, nodes), TREE, penalty=first.penalty, scale=1.0, tree=first.tree
    )
    torch.testing.assert_close(head.moments.products, expected.moments.products, rtol=0, atol=1e-9)
    torch.testing.assert_close(head.weight, expected.weight, rtol=0, atol=1e-9)
    assert merged.samples == (72, 72, 72)
    assert merged.held == 72
    solver = load_run(tmp_path / "all", own_data=False).network.objective.solver
    torch.testing.assert_close(solver.weight.double(), head.scale * head.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("order", long_unless([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [(0, 1, 2), (1, 2, 0)]))
def test_the_order_of_siblings_does_not_keep_sites_apart(
    sites: list[Path], turned: Path, tmp_path: Path, order: tuple[int, ...]
) -> None:
    trees = [RunFolder(run).load_taxonomy() for run in (sites[0], turned)]
    assert trees[0] != trees[1]
    runs = [[sites[0], turned, sites[1]][place] for place in order]
    merged = lt.merge(runs, out=tmp_path / "all")
    tree = RunFolder(runs[0]).load_taxonomy()
    assert RunFolder(tmp_path / "all").load_taxonomy() == tree
    head, first = (load_ridge(RunFolder(run).ridge, tree) for run in (tmp_path / "all", runs[0]))
    vectors, nodes = (torch.cat(parts) for parts in zip(*(training(run, tree) for run in runs), strict=True))
    expected = TreeRidge.of(
        lt.ridge.Moments.of(vectors, nodes), tree, penalty=first.penalty, scale=head.scale, tree=first.tree
    )
    assert_same_head(head, expected)
    slopes = [load_ridge(RunFolder(run).ridge, RunFolder(run).load_taxonomy()) for run in runs]
    named = [
        {each.taxonomy.path_name(node): each.calibration[node] for node in each.classes.tolist()}
        for each in slopes
    ]
    for node in head.classes.tolist():  # every class has as many samples at each site
        mean = torch.stack([each[tree.path_name(node)] for each in named]).mean(0)
        torch.testing.assert_close(head.calibration[node], mean, rtol=0, atol=1e-9)
    assert merged.held == 72
    new = write(tmp_path / "new.npz", 7)
    answers = lt.predict(tmp_path / "all", data=new)
    truth = np.load(new)["labels"].tolist()
    right = [answer["answer"] == label for answer, label in zip(answers, truth, strict=True)]
    assert np.mean(right) > 0.5


def test_heads_are_pooled_whatever_the_order_of_siblings() -> None:
    tree, vectors, nodes, _ = samples(5)
    paths = [tree.path(leaf) for leaf in reversed(tree.leaves.tolist())]
    other = lt.Taxonomy.from_paths(paths)
    assert tree != other
    places = torch.tensor([other.find(tree.path(node)) if node else 0 for node in range(tree.num_nodes)])
    moved = torch.where(nodes >= 0, places[nodes.clamp_min(0)], -1)

    def solved(rows: slice, on: lt.Taxonomy) -> TreeRidge:
        labels = nodes if on is tree else moved
        return TreeRidge.of(lt.ridge.Moments.of(vectors[rows], labels[rows]), on, penalty=0.1, scale=2.0)

    everything = slice(None)
    for on, elsewhere in ((tree, other), (other, tree)):
        heads = solved(slice(30), on), solved(slice(30, 60), elsewhere)
        for pooled in (heads[0].pool(heads[1]), pooled_head(heads)):
            assert pooled.taxonomy == on
            assert_same_head(pooled, solved(everything, on))
    fewer = lt.Taxonomy.from_paths([*paths[:-1], ("a9", "new")])
    alien = TreeRidge.of(lt.ridge.Moments.of(vectors[:2], fewer.leaves[:2]), fewer, penalty=0.1, scale=2.0)
    with pytest.raises(DataError, match=r"different taxonomies .*'a9' is in one alone"):
        solved(everything, tree).pool(alien)


@pytest.mark.slow
@pytest.mark.long
def test_it_answers_without_samples_of_its_own(sites: list[Path], tmp_path: Path) -> None:
    new = write(tmp_path / "new.npz", 7)
    model = tmp_path / "all"
    assert main(["merge", *map(str, sites), "--out", str(model)]) == 0
    assert main(["predict", str(model), "--data", str(new), "--out", str(tmp_path / "answers.csv")]) == 0
    assert len((tmp_path / "answers.csv").read_text("utf-8").splitlines()) == COUNT + 1
    assert main(["embed", str(model), "--data", str(new), "--out", str(tmp_path / "new-table.npz")]) == 0
    lt.make_index(embeddings=tmp_path / "new-table.npz", out=tmp_path / "index")
    assert main(["info", str(model)]) == 0
    lt.export(model, tmp_path / "exported")
    assert not (tmp_path / "exported" / "ridge.safetensors").exists()
    assert main(["predict", str(tmp_path / "exported"), "--data", str(new)]) == 0
    assert main(["calibrate", str(model), "--data", str(new)]) == 0
    for call in (lt.evaluate, lt.make_index):
        with pytest.raises(RunError, match="without its recipe and samples"):
            call(model)
    with pytest.raises(RunError, match="without its recipe and samples"):
        lt.extend(model, new)
    with pytest.raises(RunError, match="without a record of its samples"):
        lt.forget(model, samples=["site 1 sample 0"])
    content = b"".join(file.read_bytes() for file in model.rglob("*") if file.is_file())
    vectors, _ = training(sites[0])
    assert b"site 1 sample" not in content
    assert vectors[5].numpy().tobytes() not in content


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Solved runs on tables with a column of patients, four samples each, and two tables of new ones."""
    folder = tmp_path_factory.mktemp("patients")
    files = [write_table(folder / f"{site}.csv", site) for site in (1, 2, 3, 4)]
    settings = {"table": {"group_column": "patient"}}
    return [*(solve(file, folder / file.stem, **settings) for file in files[:2]), *files[2:]]


def write_table(path: Path, site: int) -> Path:
    data = np.load(write(path.with_suffix(".npz"), site))
    count = len(data["ids"])
    patient = [f"{site}-{row % 4 + 4 * (row // 16)}" for row in range(count)]
    columns = [f"v{number}" for number in range(data["vectors"].shape[1])]
    lines = [",".join(["name", "patient", "kind", "class", *columns])]
    for row in range(count):
        numbers = [f"{value:.6g}" for value in data["vectors"][row]]
        kind, name = str(data["labels"][row]).split("/")
        lines.append(",".join([data["ids"][row], patient[row], kind, name, *numbers]))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.slow
def test_it_says_what_is_needed_to_answer_for_patients(patients: list[Path], tmp_path: Path) -> None:
    *runs, known, new = patients
    model = tmp_path / "all"
    lt.merge(runs, out=model)
    with pytest.raises(
        DataError, match=r"groups cannot be answered: .*keeps scores alone: calibrate it .*--data"
    ):
        lt.predict(model, data=new, per="group")
    decider = lt.calibrate(model, data=known)
    promised = decider.promise_samples
    assert promised.groups is not None
    assert 2 < promised.groups <= 32 < promised.samples
    answers = lt.predict(model, data=new, per="group")
    assert len(answers) == 32
    assert "a merged model keeps sums" in lt.predict(model, data=new).warning
    with pytest.raises(RunError, match=r"holds sums and no training samples.*--labelled"):
        lt.evaluate(model, data=new)


@pytest.mark.slow
def test_samples_that_were_set_aside_for_coverage_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    split = np.array(["train", "val", "calib", "val", "calib"])
    table = EmbeddingTable(torch.eye(5), torch.tensor([1, 2, 3, -1, 0]), split=split, features=torch.eye(5))
    monkeypatch.setattr(merging, "load_reference", lambda run: table)
    held = merging._held_out(None, torch.arange(9) + 10)  # type: ignore[arg-type]
    assert held is not None
    assert held.nodes.tolist() == [12, 13], "those without a label, and that of the root, say nothing"


def test_without_held_out_samples_it_asks_for_some(sites: list[Path], tmp_path: Path) -> None:
    import shutil

    copies = [shutil.copytree(site, tmp_path / site.name) for site in sites[:2]]
    for copy in copies:
        (copy / "reference.safetensors").unlink()
        shutil.rmtree(copy / "embeddings", ignore_errors=True)
    merged = lt.merge(copies, out=tmp_path / "all")
    assert merged.held == 0
    new = write(tmp_path / "new.npz", 7)
    with pytest.raises(DataError, match="no labelled validation samples to calibrate on"):
        lt.predict(tmp_path / "all", data=new)
    lt.calibrate(tmp_path / "all", data=new)
    lt.predict(tmp_path / "all", data=write(tmp_path / "newer.npz", 8))
    again = lt.merge([tmp_path / "all", sites[2]], out=tmp_path / "more")  # a merged model can be merged
    assert again.samples == (144, 72)


@pytest.mark.slow
def test_what_does_not_go_together_is_refused(sites: list[Path], tmp_path: Path) -> None:
    first = sites[0]
    with pytest.raises(ValueError, match="at least two"):
        lt.merge([first], out=tmp_path / "all")
    with pytest.raises(DataError, match=r"120 samples of .* would count twice"):
        lt.merge([first, first], out=tmp_path / "all")
    vectors = np.load(write(tmp_path / "a.npz", 4))["vectors"]
    wide = np.concatenate([vectors, vectors[:, :1]], 1)
    other = solve(write(tmp_path / "wide.npz", 4, vectors=wide), tmp_path / "wide")
    with pytest.raises(RunError, match="vectors of other lengths"):
        lt.merge([first, other], out=tmp_path / "all")
    scaled = vectors * np.where(np.arange(47) < 7, 1, 300).astype(np.float32)
    scaled[:, 0] *= 1000
    other = solve(write(tmp_path / "scaled.npz", 4, vectors=scaled), tmp_path / "scaled")
    if bool((load_run(other, own_data=False).network.encoder.scale != 1).any()):
        with pytest.raises(RunError, match="standardise their vectors"):
            lt.merge([first, other], out=tmp_path / "all")
    names = np.array(["animal/dog", "animal/cat", "plant/oak", "plant/elm"])[np.arange(COUNT) % 4]
    other = solve(write(tmp_path / "names.npz", 4, labels=names), tmp_path / "names")
    with pytest.raises(DataError, match=r"'plant/fern' is in .*'plant/elm' is in .* alone.*taxonomy map"):
        lt.merge([first, other], out=tmp_path / "all")
    trained = lt.train(
        tmp_path / "a.npz", "supcon", out=tmp_path / "steps", epochs=1, accelerator="cpu", progress_bar=False
    )
    with pytest.raises(RunError, match="trained by steps"):
        lt.merge([first, trained.path], out=tmp_path / "all")
    assert not (tmp_path / "all").exists()
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "mine.txt").touch()
    with pytest.raises(RunError, match="exists"):
        lt.merge(sites, out=tmp_path / "all")


def samples(seed: int) -> tuple[lt.Taxonomy, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A tree, and vectors with labels of it: several, coarse and missing ones; groups of unequal size."""
    rng = np.random.default_rng(seed)
    tree = lt.Taxonomy.from_paths(
        [(f"a{k % 3}", f"b{k % 5}", f"c{k}") if k % 4 else (f"a{k % 3}", f"d{k}") for k in range(6)]
    )
    dim = int(rng.choice([4, 12, 70]))  # more dimensions than samples, too
    count = 60
    leaves = tree.leaves.numpy()
    classes = rng.integers(0, len(leaves), count)
    classes[: len(leaves)] = np.arange(len(leaves))
    nodes = np.stack([leaves[classes], np.full(count, -1)], 1)
    coarse = rng.random(count) < 0.15
    nodes[coarse, 0] = tree.ancestors.numpy()[nodes[coarse, 0], rng.integers(1, 3, int(coarse.sum()))]
    nodes[nodes[:, 0] < 0, 0] = leaves[0]
    several = rng.random(count) < 0.15
    nodes[several, 1] = rng.choice(leaves, int(several.sum()))
    nodes[rng.random(count) < 0.05] = -1
    nodes[:12] = np.stack([np.tile(leaves, 2)[:12], np.full(12, -1)], 1)
    vectors = rng.normal(size=(len(leaves), dim))[classes] + rng.normal(size=(count, dim))
    groups = np.sort(rng.integers(0, 25, count))
    return tree, torch.from_numpy(vectors), torch.from_numpy(nodes), torch.from_numpy(groups)


@pytest.mark.slow
def test_encoders_of_other_weights_are_not_merged(image_folder: Path, tmp_path: Path) -> None:
    settings = {"image_size": 28, "encoder": "small-conv", "trainable": "head", "val": 0.2}
    runs = [solve(image_folder, tmp_path / f"site{seed}", seed=seed, **settings) for seed in (0, 1)]
    with pytest.raises(RunError, match="have other weights"):
        lt.merge(runs, out=tmp_path / "all")


def assert_same_head(head: TreeRidge, other: TreeRidge) -> None:
    assert torch.equal(head.classes, other.classes)
    assert torch.equal(head.moments.labels, other.moments.labels)
    for name in ("counts", "sums", "products"):
        mine, theirs = getattr(head.moments, name), getattr(other.moments, name)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)
    torch.testing.assert_close(head.weight, other.weight, rtol=0, atol=1e-8)
    torch.testing.assert_close(head.bias, other.bias, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", some_now(range(60), 20))
def test_heads_that_are_added_forgotten_and_pooled_equal_refits(seed: int) -> None:
    tree, vectors, nodes, groups = samples(seed)
    penalty = 10.0 ** (seed % 4 - 2)
    whole, _ = fit_tree_ridge(vectors, nodes, tree, groups=groups, penalty=penalty, folds=3)
    gone = torch.isin(groups, torch.unique(groups)[20:])
    gone[:12] = False

    def refit(rows: torch.Tensor) -> TreeRidge:
        return TreeRidge.of(
            lt.ridge.Moments.of(vectors[rows], nodes[rows]), tree, penalty=penalty, scale=whole.scale
        )

    everything = torch.ones(len(vectors), dtype=torch.bool)
    assert_same_head(whole.forget(vectors[gone], nodes[gone]), refit(~gone))
    assert_same_head(refit(~gone).add(vectors[gone], nodes[gone]), refit(everything))
    other = everything.clone()
    other[::2] = False
    other[:12] = True
    assert_same_head(pooled_head([refit(other), refit(~other)]), refit(everything))
    new = torch.isin(nodes, nodes[0, 0]).any(1)  # a class that comes later
    assert_same_head(refit(~new).add(vectors[new], nodes[new]), refit(everything))


def test_slopes_are_means_by_the_samples_of_a_class() -> None:
    tree, vectors, nodes, _ = samples(3)
    heads = [
        fit_tree_ridge(vectors[rows], nodes[rows], tree, folds=3)[0] for rows in (slice(40), slice(30, 60))
    ]
    changed = [
        TreeRidge.of(
            head.moments,
            tree,
            penalty=1.0,
            scale=scale,
            calibration=torch.full((tree.num_nodes, 2), float(number), dtype=torch.float64),
        )
        for number, (head, scale) in enumerate(zip(heads, (2.0, 8.0), strict=True), 1)
    ]
    pooled = pooled_head(changed)
    counts = [head.moments.count for head in heads]
    assert pooled.scale == pytest.approx(float(np.exp(np.average(np.log([2.0, 8.0]), weights=counts))))
    assert pooled.penalty == 1.0
    assert bool(((pooled.calibration[pooled.classes] > 1) & (pooled.calibration[pooled.classes] < 2)).any())
