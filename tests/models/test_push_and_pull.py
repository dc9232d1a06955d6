"""Exported models go to a hub and come back, against a stand-in of the hub on this machine."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hub_stand_in import TOKEN, Repository, StandIn, files_of, serving, use

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, LabeltreeError, RunError
from labeltree.inference.hub.hub_files import fetched_files, repository_name, sent_files
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "accelerator": "cpu", "val": 0.4}
NAME = "jane/birds"
WEIGHTS = "encoder.safetensors"
PRIVATE = ("samples.npz", "reference.safetensors", "calibration.safetensors", "recipe.yaml", "data.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    home = tmp_path_factory.mktemp("ward-7")
    data = make_image_folder(home / "patients-of-ward-7")
    return lt.train(data, "hwc+lam", out=home / "run", progress_bar=False, image_size=28, **SETTINGS).path


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with a card, a graph stands in for that of ONNX, and embeddings of samples."""
    folder = lt.load(run).export(
        tmp_path_factory.mktemp("export") / "model", ["safetensors"], with_reference=True
    )
    for name in ("model.onnx", "labels.json", "predict.py"):
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(exported, tmp_path / "model"))


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with serving() as stand_in:
        yield stand_in


@pytest.fixture
def hub(server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> StandIn:
    server.repositories.clear()
    server.status = None
    server.storage = tmp_path / "hub"
    use(monkeypatch, server, tmp_path / "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return server


def content_of(hub: StandIn, name: str = NAME) -> Path:
    """The folder of the newest commit."""
    known = hub.repositories[name]
    return known.commits[known.refs["main"]]


def embed(model: object, count: int = 3) -> torch.Tensor:
    pixels = torch.linspace(0, 255, count * 28 * 28 * 3).to(torch.uint8).reshape(count, 28, 28, 3).numpy()
    embeddings: torch.Tensor = model.embed_batch(list(pixels))[1]  # type: ignore[attr-defined]
    return embeddings


def test_a_model_goes_and_comes_back(hub: StandIn, exported: Path, tmp_path: Path) -> None:
    sent = lt.push(exported, NAME)
    assert not sent.public
    assert hub.repositories[NAME].private, "nobody else sees it"
    assert sent.commit == hub.repositories[NAME].refs["main"]
    there = content_of(hub)
    assert set(files_of(there)) == {*sent.files, ".gitattributes"}
    assert set(files_of(exported)) - sent.files.keys() == {"reference.safetensors"} == {*sent.left}
    assert sent.size == sum((there / name).stat().st_size for name in sent.files)
    assert not {*files_of(there)} & {*PRIVATE}
    assert f'lt.load("hf:{NAME}")' in (there / "README.md").read_text()

    back = lt.pull(NAME, out=tmp_path / "back")
    names = files_of(back)
    assert WEIGHTS in names
    assert not {"predict.py", "model.onnx", "labels.json", "reference.safetensors"} & {*names}, "no programs"
    assert not [path for path in back.rglob("*") if path.is_symlink() or path.name.startswith(".")]
    for name in names:
        assert (back / name).read_bytes() == (there / name).read_bytes()
    torch.testing.assert_close(embed(lt.load(back)), embed(lt.load(exported)), rtol=0, atol=0)
    assert lt.load(back).digest == lt.load(exported).digest
    assert set(hub.tokens) == {f"Bearer {TOKEN}"}


def test_a_run_is_exported_first(hub: StandIn, run: Path, tmp_path: Path) -> None:
    sent = lt.push(run, NAME, license="apache-2.0", public=True)
    assert not hub.repositories[NAME].private
    assert WEIGHTS in sent.files
    assert "model.onnx" not in sent.files, "the graph only if it is asked for"
    card = (content_of(hub) / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: labeltree\n")
    assert "\nlicense: apache-2.0\n---\n" in card
    assert "# birds" in card
    for name in files_of(content_of(hub)):
        content = (content_of(hub) / name).read_bytes()
        for word in (b"ward-7", str(run).encode(), os.fsencode(Path.home())):
            assert word not in content, (name, word)


def test_an_encoder_of_texts_takes_its_configuration_along(
    hub: StandIn, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    encoder = write_tiny_transformer(tmp_path_factory.mktemp("encoder") / "tiny")
    words = {"dog": "barks bone kennel", "cat": "purrs mouse sofa"}
    rows = [f"{a} {b},{label}" for label, said in words.items() for a in said.split() for b in said.split()]
    table = tmp_path / "notes.csv"
    table.write_text("\n".join(["text,label", *(4 * rows)]))
    settings = {**SETTINGS, "encoder": f"text:{encoder}", "classifier": "own"}
    folder = lt.train(table, "ce", out=tmp_path / "run", progress_bar=False, **settings).path
    lt.push(folder, NAME)
    model = lt.load(f"hf:{NAME}")
    assert any(name.startswith("encoder_config/") for name in files_of(model.folder.path))
    ours, theirs = (one.embed_batch(["bone", "a mouse"])[1] for one in (lt.load(folder), model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_name_is_loaded_from_the_hub_once(
    hub: StandIn, exported: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lt.push(exported, NAME).commit
    model = lt.load(f"hf:{NAME}")
    assert model.folder.path.is_relative_to(cache_folder)
    hub.requests.clear()
    assert lt.load(f"hf:{NAME}@{first}").digest == model.digest
    assert hub.requests == [], "a commit that is there needs no network"
    assert lt.load(f"hf:{NAME}@main").folder.path == model.folder.path
    assert not hub.downloaded()
    monkeypatch.setenv("LABELTREE_OFFLINE", "1")
    assert lt.load(f"hf:{NAME}").folder.path == model.folder.path
    with pytest.raises(DataError, match="'jane/others' cannot be fetched: nothing may be"):
        lt.load("hf:jane/others")


def test_a_newer_commit_is_fetched_and_an_older_one_stays(hub: StandIn, folder: Path, tmp_path: Path) -> None:
    first = lt.push(folder, NAME).commit
    (folder / "README.md").write_text("---\nlibrary_name: labeltree\n---\nanother card\n")
    (folder / "predict.py").unlink()
    second = lt.push(folder, NAME)
    assert second.commit != first
    assert "predict.py" not in files_of(content_of(hub)), "what is no longer exported goes"
    assert "another card" in (lt.pull(NAME, out=tmp_path / "new") / "README.md").read_text()
    before = lt.pull(NAME, revision=first, out=tmp_path / "old")
    assert "another card" not in (before / "README.md").read_text()
    assert lt.load(f"hf:{NAME}").folder.path.name == second.commit


def test_the_commands(
    hub: StandIn,
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["push", str(exported), NAME, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"to {hub.address}/{NAME} (private): " in said
    assert "  encoder.safetensors" in said
    assert "stays here: reference.safetensors" in said
    assert "nothing was sent" in said
    assert hub.requests == []
    assert main(["push", str(exported), NAME]) == 0
    said = capsys.readouterr().out
    assert said.index("encoder.safetensors") < said.index("sent: ")
    assert main(["pull", f"hf:{NAME}"]) == 0
    assert capsys.readouterr().out.startswith("birds: ")
    assert main(["info", "birds"]) == 0
    assert main(["pull", NAME]) == 2
    assert (
        "'birds' holds an exported model already; name another folder, or --replace"
        in capsys.readouterr().err
    )
    assert main(["pull", NAME, "--replace"]) == 0
    assert main(["info", f"hf:{NAME}"]) == 2
    assert f"'labeltree pull {NAME}' fetches it into a folder" in capsys.readouterr().err


def refuse(call: Callable[[], object], message: str, error: type[LabeltreeError] = DataError) -> str:
    """The message of the refusal, which has no token and no address of the hub in it."""
    with pytest.raises(error, match=message) as refused:
        call()
    said = str(refused.value)
    assert TOKEN not in said
    assert "http" not in said
    return said


def test_what_may_not_be_sent_is_refused_before_the_hub_is_asked(
    hub: StandIn, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "config.json").write_text('{"format": "another"}')
    for place in (photos, tmp_path / "nothing"):
        refuse(lambda place=place: lt.push(place, NAME), "is not a labeltree export, and not a run", RunError)
    for name in ("birds", "jane/birds/more", "../up", "jane/birds@main", "jane/..", ""):
        refuse(lambda name=name: lt.push(folder, name), "(does not name a repository|names a revision)")
    refuse(lambda: lt.push(folder, NAME, license="a\nb"), "does not name a licence")
    refuse(lambda: lt.push(folder, NAME, formats=["onnx"]), "is exported already", RunError)

    secret = tmp_path / "secret.json"
    secret.write_text('"do not send me"')
    for make in (os.symlink, os.link):
        (folder / "labels.json").unlink()
        make(secret, folder / "labels.json")
        refuse(lambda: lt.push(folder, NAME), "link")
    (folder / "labels.json").unlink()

    decisions = json.loads((folder / "decisions.json").read_text())
    (folder / "decisions.json").write_text(json.dumps({**decisions, "calibrated_on": "/home/jane/clinic"}))
    refuse(lambda: lt.push(folder, NAME), "was calibrated after its export, and names the samples", RunError)
    (folder / "decisions.json").write_text(json.dumps(decisions))

    (folder / "extensions" / "1").mkdir(parents=True)
    refuse(lambda: lt.push(folder, NAME), "was extended after its export", RunError)
    shutil.rmtree(folder / "extensions")

    home = tmp_path / "home" / "jane"
    monkeypatch.setenv("HOME", str(home))
    card = folder / "README.md"
    text = card.read_text()
    card.write_text(f"{text}\nTrained on {home}/clinic.\n")
    refuse(lambda: lt.push(folder, NAME), "README.md' names a place on this disk")
    card.write_text(text)

    weights = folder / WEIGHTS
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refuse(lambda: lt.push(folder, NAME), r"encoder.safetensors of .* is not what its config.json", RunError)
    weights.unlink()
    refuse(lambda: lt.push(folder, NAME), "has no encoder.safetensors, which its config.json names", RunError)
    weights.write_bytes(content)

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refuse(lambda: lt.push(folder, NAME), "cannot be sent: the network is not to be used")
    refuse(lambda: lt.pull(NAME, out=tmp_path / "out"), "cannot be fetched: nothing may be")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    refuse(lambda: lt.push(folder, NAME), "there is no token for 127.0.0.1: log in with 'hf auth login'")
    assert hub.requests == []
    assert not (tmp_path / "out").exists()


def test_what_the_hub_does_not_take(
    hub: StandIn, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(lambda: lt.push(folder, "john/birds"), "the token may not write to 'john/birds'")
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    refuse(lambda: lt.push(folder, NAME), "it does not know the token; log in again")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    refuse(lambda: lt.push(folder, NAME, license="unheard-of"), "does not take the first lines of README.md")

    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"another's")
    hub.add("jane/others", other, private=True)
    refuse(lambda: lt.push(folder, "jane/others"), "is not a labeltree export.*; name another", RunError)
    (other / "config.json").write_text('{"model_type": "bert"}')
    hub.add("jane/others", other)
    refuse(lambda: lt.push(folder, "jane/others"), "is not a labeltree export.*; name another", RunError)

    lt.push(folder, "jane/seen", public=True)
    refuse(lambda: lt.push(folder, "jane/seen"), "is public, so everybody would see the model; say --public")
    lt.push(folder, "jane/unseen")
    said = "is private, and --public does not change that; change it in its settings"
    with pytest.raises(DataError, match=said):
        lt.push(folder, "jane/unseen", public=True)
    hub.status = 503
    refuse(lambda: lt.push(folder, "jane/unseen"), "does not take 'jane/unseen': status 503; try again later")


def test_a_card_without_first_lines_gets_some(hub: StandIn, folder: Path) -> None:
    for card in ("no lines", "---\nnot ended\n", "---\ntags: [a]\nlicense: mit\n---\n# Birds\n"):
        (folder / "README.md").write_text(card)
        lt.push(folder, NAME, license="cc-by-4.0")
        said = (content_of(hub) / "README.md").read_text()
        assert said.startswith("---\n")
        assert said.count("license: ") == 1
        assert "license: cc-by-4.0\n---\n" in said


@pytest.mark.parametrize("name", ["jane/nothing", "john/birds"])
def test_a_repository_that_is_not_there(hub: StandIn, name: str, tmp_path: Path) -> None:
    refuse(lambda: lt.pull(name, out=tmp_path / "out"), f"has no repository '{name}' that you may see")
    refuse(lambda: lt.load(f"hf:{name}"), f"has no repository '{name}' that you may see")
    assert os.listdir(tmp_path) in ([], ["hub"])


def publish(hub: StandIn, folder: Path, name: str = NAME) -> Repository:
    hub.add(name, folder)
    return hub.repositories[name]


def test_what_was_changed_on_the_way_or_there_is_refused(
    hub: StandIn, exported: Path, folder: Path, tmp_path: Path
) -> None:
    known, out = publish(hub, folder), tmp_path / "out"
    refuse(lambda: lt.pull(NAME, revision="v9", out=out), "has no revision 'v9'")
    known.harmed = True
    refuse(lambda: lt.pull(NAME, out=out), "came damaged: its digest is not what 127.0.0.1 says")
    known.harmed = False
    known.cut = 100
    refuse(lambda: lt.pull(NAME, out=out), "was cut short .*; the same command tries again")
    known.cut = None
    known.gated = True
    refuse(lambda: lt.pull(NAME, out=out), "access to 'jane/birds' is restricted")
    known.gated = False

    weights = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    publish(hub, folder)
    refuse(lambda: lt.pull(NAME, out=out), r"encoder.safetensors of .* is not what its config.json", RunError)
    (folder / WEIGHTS).write_bytes(weights)
    name = lt.load(exported).taxonomy.names[-1]
    text = (folder / "taxonomy.json").read_text()
    assert f'"{name}"' in text
    (folder / "taxonomy.json").write_text(text.replace(f'"{name}"', '"another"'))
    publish(hub, folder)
    refuse(lambda: lt.pull(NAME, out=out), r"taxonomy.json of .* is not what its config.json", RunError)
    (folder / "taxonomy.json").write_text("[]")
    publish(hub, folder)
    refuse(
        lambda: lt.pull(NAME, out=out), "the taxonomy of 'jane/birds' at 127.0.0.1 cannot be read", RunError
    )

    config = json.loads((folder / "config.json").read_text())
    for text, message in (
        (json.dumps({**config, "version": 2}), "was exported by a later labeltree"),
        (json.dumps({**config, "format": "another"}), "is not a labeltree export"),
        ("[1, 2]", "cannot be read as the configuration of an exported model"),
    ):
        (folder / "config.json").write_text(text)
        publish(hub, folder)
        refuse(lambda: lt.pull(NAME, out=out), message, RunError)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / WEIGHTS).unlink()
    publish(hub, folder)
    refuse(lambda: lt.pull(NAME, out=out), "has no weights in safetensors", RunError)
    (folder / "config.json").unlink()
    publish(hub, folder)
    refuse(lambda: lt.pull(NAME, out=out), "is not a labeltree export: it has no config.json", RunError)
    assert not out.exists(), "a folder appears as a whole or not at all"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_an_existing_folder_is_kept(hub: StandIn, folder: Path, tmp_path: Path) -> None:
    publish(hub, folder)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("ten years")
    refuse(lambda: lt.pull(NAME, out=mine, replace=True), "exists and holds no exported model", RunError)
    assert files_of(mine) == ["thesis.txt"]
    assert not hub.requests


def test_files_are_chosen_by_their_names() -> None:
    strange = [
        "../config.json", "/etc/passwd", "encoder_config/../../up.json", "encoder_config/modeling.py",
        "encoder_config/.hidden.json", "pytorch_model.bin", "encoder_config/a/b/c.json", "model.pt2",
    ]  # fmt: skip
    good = [
        "config.json",
        "encoder.safetensors",
        "encoder_config/1_Pooling/config.json",
        "encoder_config/a.txt",
    ]
    assert fetched_files([*strange, *good]) == good
    assert sent_files([*strange, *good]) == sorted([*good, "model.pt2"])
    assert str(repository_name("hf:jane/birds@v1")) == "hf:jane/birds@v1"
    assert repository_name("jane/birds", "v1").revision == "v1"
    with pytest.raises(DataError, match="leave one of them out"):
        repository_name("jane/birds@v1", "v2")
