"""Networks of the Hugging Face hub by name, against a stand-in of the hub on this machine."""

import errno
import json
import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hub_stand_in import TOKEN, StandIn, serving, use

import labeltree as lt
from labeltree.errors import DataError, LabeltreeError, WriteError
from labeltree.inference.run_embeddings import run_tables
from labeltree.models import (
    as_pinned,
    build_encoder,
    check_encoder,
    encoder_modality,
    pinned_encoder,
    usual_images,
    usually_pretrained,
)
from labeltree.models import hub as hub_module
from labeltree.models.hub import only_cached
from labeltree.preprocessing import ImageLook
from labeltree.report.cross_validation import fold_runs, train_folds
from labeltree.runs import ModelDescription, RunFolder
from labeltree.training.choosing.choose_encoder import IMAGE_ENCODER, SMALL_ENCODER, choose_encoder
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of, read_recipe, with_absolute_paths
from labeltree.training.recipe import Recipe
from tiny_checkpoints import SIZE, write_open_clip, write_timm, write_transformers
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

DINO, TEXTS, BIOCLIP = "facebook/dinov2-small", "sentence-transformers/tiny-MiniLM", "imageomics/bioclip-2"
TIMM = "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"
CODE, PICKLE = "modeling_harm.py", "pytorch_model.bin"


def _with_code(folder: Path) -> Path:
    """What many repositories have besides: code, pickles, other formats, a page."""
    (folder / "onnx").mkdir()
    for name in (CODE, PICKLE, "README.md", "onnx/model.onnx", "training_args.bin"):
        (folder / name).write_bytes(b"nobody wants this")
    return folder


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each repository."""
    top = tmp_path_factory.mktemp("checkpoints")
    write_transformers(top / "dino", "dinov2")
    write_timm(top / "timm")
    write_open_clip(top / "clip")
    write_tiny_transformer(top / "texts")
    for folder in top.iterdir():
        _with_code(folder)
    return top


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with serving() as stand_in:
        yield stand_in


@pytest.fixture
def hub(
    server: StandIn, checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StandIn]:
    """The stand-in with four repositories, and an empty cache in ``tmp_path / "cache"``."""
    server.repositories.clear()
    server.status = None
    for name, folder in ((DINO, "dino"), (TIMM, "timm"), (BIOCLIP, "clip"), (TEXTS, "texts")):
        server.add(name, checkpoints / folder)
    use(monkeypatch, server, tmp_path / "cache")
    yield server
    assert not [request for request in server.requests if CODE in request or PICKLE in request]


def _other_commit(hub: StandIn, repository: str, folder: Path) -> str:
    """A second commit of a repository, to which its main branch moves."""
    known = hub.repositories[repository]
    shutil.copytree(known.commits[known.refs["main"]], folder)
    (folder / "README.md").write_text("another")
    return hub.add(repository, folder)


def _features(encoder: torch.nn.Module, modality: str) -> torch.Tensor:
    images = torch.linspace(0, 1, 2 * 3 * SIZE * SIZE).reshape(2, 3, SIZE, SIZE)
    with torch.no_grad():
        found: torch.Tensor = encoder.eval()(images if modality == "image" else torch.tensor([[2, 4, 5, 3]]))
    return found


@pytest.mark.parametrize(
    ("name", "repository", "folder", "downloaded"),
    [
        (
            f"hf:{DINO}",
            f"transformers:hf-hub:{DINO}",
            "transformers:{}/dino",
            {"config.json", "preprocessor_config.json", "model.safetensors"},
        ),
        (
            "timm:vit_tiny_patch16_224",
            f"timm:hf-hub:{TIMM}",
            "timm:{}/timm",
            {"config.json", "model.safetensors"},
        ),
        (f"hf:{TIMM}", f"timm:hf-hub:{TIMM}", "timm:{}/timm", {"config.json", "model.safetensors"}),
        (
            f"open_clip:hf-hub:{BIOCLIP}",
            f"open_clip:hf-hub:{BIOCLIP}",
            "open_clip:{}/clip",
            {"open_clip_config.json", "open_clip_model.safetensors"},
        ),
        (
            "text:tiny-MiniLM",
            f"text:hf-hub:{TEXTS}",
            "text:{}/texts",
            {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"},
        ),
        (
            f"hf:{TEXTS}",
            f"text:hf-hub:{TEXTS}",
            "text:{}/texts",
            {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"},
        ),
    ],
)
def test_a_name_is_what_its_files_are(
    hub: StandIn, checkpoints: Path, name: str, repository: str, folder: str, downloaded: set[str]
) -> None:
    commit = hub.repositories[repository.partition("hf-hub:")[2]].refs["main"]
    pinned = pinned_encoder(name, pretrained=True)
    assert pinned == f"{repository}@{commit}"
    assert hub.downloaded() == downloaded
    hub.requests.clear()
    local = folder.format(checkpoints)
    modality = encoder_modality(name)
    assert modality == encoder_modality(pinned) == encoder_modality(local)
    encoder = build_encoder(name, image_size=SIZE, pretrained=True)
    assert encoder.name == pinned
    expected = build_encoder(local, image_size=SIZE)
    assert (encoder.mean, encoder.std) == (expected.mean, expected.std)
    assert torch.equal(_features(encoder, modality), _features(expected, modality))
    assert usual_images(pinned) == usual_images(local)
    check_encoder(pinned)
    assert hub.requests == []  # the process has asked, and the cache has the files


def test_the_shape_of_images_and_the_modality_need_no_weights(hub: StandIn) -> None:
    assert usually_pretrained(f"hf:{DINO}")
    assert hub.requests == []
    assert (images := usual_images(f"hf:{DINO}")) is not None
    assert (images.channels, images.size) == (3, SIZE)
    assert encoder_modality(f"hf:{TEXTS}") == "text"
    build_encoder(f"hf:{DINO}", image_size=SIZE, pretrained=False)
    assert "model.safetensors" not in hub.downloaded()


def test_one_for_images_and_one_for_texts(hub: StandIn) -> None:
    pinned = pinned_encoder(f"hf:{DINO}+hf:{TEXTS}")
    image, text = pinned.split("+")
    assert image.startswith(f"transformers:hf-hub:{DINO}@")
    assert text.startswith(f"text:hf-hub:{TEXTS}@")
    encoder = build_encoder(pinned, image_size=SIZE, pooling="cls")
    assert encoder.modality == "both"
    assert as_pinned(f"hf:{DINO}+hf:{TEXTS}", pinned) == pinned


def test_a_revision_is_pinned_when_it_is_first_used(hub: StandIn, tmp_path: Path) -> None:
    first = pinned_encoder(f"hf:{DINO}")
    hub.repositories[DINO].refs["v1"] = first.rpartition("@")[2]
    commit = _other_commit(hub, DINO, tmp_path / "later")
    hub_module._listing.cache_clear()  # as in another process
    assert pinned_encoder(f"hf:{DINO}").endswith(f"@{commit}")
    assert pinned_encoder(f"hf:{DINO}@v1") == first
    hub.requests.clear()
    assert pinned_encoder(first) == first
    assert pinned_encoder(f"transformers:hf-hub:{DINO}@{commit}").endswith(commit)
    assert hub.requests == []
    for written in (f"hf:{DINO}", f"hf:{DINO}@main", f"hf:{DINO}@v1", f"transformers:hf-hub:{DINO}", first):
        assert as_pinned(written, first) == first
    for written in (f"hf:{DINO}@{commit}", f"hf:{DINO}@v2", f"hf:{TEXTS}", f"timm:hf-hub:{DINO}", "auto"):
        assert as_pinned(written, first) == written
    timm = pinned_encoder("timm:vit_tiny_patch16_224", pretrained=True)
    assert as_pinned("timm:vit_tiny_patch16_224", timm, pretrained=True) == timm
    assert as_pinned("timm:vit_tiny_patch16_224", timm) == "timm:vit_tiny_patch16_224"


@pytest.mark.parametrize("variable", ["LABELTREE_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_the_cache_is_all_there_is(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    pinned = pinned_encoder(f"hf:{DINO}")
    usual_images(f"hf:{TEXTS}")  # the configuration alone
    hub_module._listing.cache_clear()
    hub.requests.clear()
    monkeypatch.setenv(variable, "1")
    assert pinned_encoder(f"hf:{DINO}") == pinned
    assert build_encoder(f"hf:{DINO}", image_size=SIZE).name == pinned
    for name in (f"open_clip:hf-hub:{BIOCLIP}", f"hf:{TEXTS}", f"hf:{DINO}@v1"):
        with pytest.raises(DataError, match=r"is not in the cache '.*', and nothing may be .*'hf download"):
            pinned_encoder(name)
    assert hub.requests == []


def test_offline_pretrained_weights_of_torchvision_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELTREE_OFFLINE", "true")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: "/nowhere")
    with pytest.raises(DataError, match=r"not in '/nowhere/checkpoints/resnet18.*nothing may be fetched"):
        build_encoder("torchvision:resnet18", image_size=32, pretrained=True)
    with pytest.raises(DataError, match=r"not in '/nowhere/checkpoints/gcvit_.*nothing may be fetched"):
        build_encoder("timm:gcvit_xxtiny", image_size=224, pretrained=True)


def test_a_hub_that_cannot_be_reached(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from huggingface_hub import constants

    pinned = pinned_encoder(f"hf:{DINO}")
    hub_module._listing.cache_clear()
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        caplog.clear()
        assert pinned_encoder(f"hf:{DINO}") == pinned
        assert "127.0.0.1 cannot be reached (ConnectError)" in caplog.text
        assert "is taken from the cache, at commit" in caplog.text
        with pytest.raises(DataError, match=r"not in the cache .*cannot be reached \(ConnectError\)"):
            pinned_encoder(f"hf:{TEXTS}")
        assert build_encoder(pinned, image_size=SIZE).name == pinned
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    hub.status = 503
    with pytest.raises(DataError, match=r"cannot be reached \(status 503\)"):
        pinned_encoder(f"hf:{TEXTS}")
    assert sum(waits) < 1


def test_what_the_hub_does_not_give(hub: StandIn, checkpoints: Path, tmp_path: Path) -> None:
    hub.add("meta/secret", checkpoints / "dino", gated=True)
    only_pickles = Path(shutil.copytree(checkpoints / "dino", tmp_path / "pickles"))
    (only_pickles / "model.safetensors").unlink()
    hub.add("old/pickles", only_pickles)
    for name, said in (
        ("hf:nobody/nothing", r"127\.0\.0\.1 has no repository 'nobody/nothing', nor is there a folder"),
        ("text:models/minilm", r"has no repository 'models/minilm', nor is there a folder of that name"),
        (f"hf:{DINO}@v9", f"'{DINO}' at 127.0.0.1 has no revision 'v9'"),
        ("hf:meta/secret", r"access to 'meta/secret' is restricted: accept its terms .*'hf auth login'"),
        ("hf:old/pickles", r"'old/pickles' has no weights in safetensors, only 'pytorch_model.bin'; .*run"),
    ):
        with pytest.raises(DataError, match=said):
            build_encoder(name, image_size=SIZE)
    for name in ("hf:", "hf:./folder", "hf:a/b/c", "hf:a/..", "hf:a/b@", "hf:a/b@../../x", "text:hf-hub:a b"):
        with pytest.raises(ValueError, match="names no repository of the Hugging Face hub; expected"):
            build_encoder(name, image_size=SIZE)


def test_a_model_that_needs_its_own_code_is_refused(hub: StandIn, checkpoints: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoints / "dino", tmp_path / "own"))
    code = {"AutoConfig": "modeling_harm.C", "AutoModel": "modeling_harm.M"}
    (folder / "config.json").write_text(json.dumps({"model_type": "harm", "auto_map": code}))
    hub.add("own/code", folder)
    with pytest.raises(DataError, match=r"'hf:own/code' cannot be loaded: .*code"):
        pinned_encoder("hf:own/code")


def test_what_came_damaged_or_cut_is_fetched_again(hub: StandIn, tmp_path: Path) -> None:
    dino = hub.repositories[DINO]
    dino.cut = 100
    with pytest.raises(DataError, match=r"download of 'model.safetensors' of '.*' was cut short"):
        build_encoder(f"hf:{DINO}", image_size=SIZE)
    dino.cut, dino.harmed = None, True
    with pytest.raises(DataError, match=r"'model.safetensors' of '.*' came damaged: its digest is not"):
        build_encoder(f"hf:{DINO}", image_size=SIZE)
    weights = list((tmp_path / "cache").rglob("*.safetensors"))
    assert weights == []
    dino.harmed = False
    hub.requests.clear()
    pinned = build_encoder(f"hf:{DINO}", image_size=SIZE).name
    assert hub.downloaded() == {"model.safetensors"}
    (found,) = (tmp_path / "cache").rglob("model.safetensors")
    with found.open("r+b") as file:  # as a crash may leave it
        file.truncate(50)
    assert pinned_encoder(f"hf:{DINO}") == pinned
    build_encoder(pinned, image_size=SIZE)


def test_a_full_disk(hub: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
        with pytest.raises(DataError, match=r"takes .* kB, and in '.*' only 0 kB are free; .*HF_HOME"):
            pinned_encoder(f"hf:{DINO}")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    with pytest.raises(WriteError, match=r"cannot write '.*models--.*': no space left on device; free some"):
        pinned_encoder(f"hf:{DINO}")


def test_size_and_licence_are_said_and_no_token_is(
    hub: StandIn, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.repositories[TEXTS].licence = None
    hub.repositories[BIOCLIP].licence = "mit\x1b[31m"
    steps: list[tuple[str, int, int]] = []
    with caplog.at_level(logging.DEBUG):
        pinned_encoder(f"hf:{DINO}", progress=lambda *step: steps.append(step))
        for name in (f"hf:{TEXTS}", f"hf:{BIOCLIP}"):
            pinned_encoder(name)
        with pytest.raises(LabeltreeError) as caught:
            pinned_encoder("hf:nobody/nothing")
    said = [record.message for record in caplog.records if record.name == "labeltree.models"]
    assert said[0] == f"{DINO} from 127.0.0.1: 33 kB, licence apache-2.0"
    assert said[1].endswith("licence not stated")
    assert said[2].endswith("licence mit[31m")
    message, done, total = steps[-1]
    assert (message, done) == (f"downloading {DINO}", total)
    assert total > 30_000
    assert f"Bearer {TOKEN}" in hub.tokens
    output = capfd.readouterr()
    assert TOKEN not in caplog.text + str(caught.value) + output.out + output.err
    assert output.out == ""


def test_nothing_is_asked_within_only_cached(hub: StandIn) -> None:
    pinned = pinned_encoder(f"hf:{DINO}")
    hub.requests.clear()
    with only_cached():
        assert pinned_encoder(f"hf:{DINO}") == pinned
        with pytest.raises(DataError, match="is not in the cache"):
            pinned_encoder(f"hf:{TEXTS}")
    assert hub.requests == []


def test_weights_in_parts_and_of_modules(hub: StandIn, checkpoints: Path, tmp_path: Path) -> None:
    import transformers

    folder = tmp_path / "parts"
    transformers.Dinov2Model.from_pretrained(checkpoints / "dino").save_pretrained(
        folder, max_shard_size="10KB"
    )
    parts = {file.name for file in folder.glob("*.safetensors")}
    assert len(parts) > 1
    shutil.copy(checkpoints / "dino" / "preprocessor_config.json", folder)
    hub.add("big/model", folder)
    pinned = pinned_encoder("hf:big/model")
    assert parts < hub.downloaded()
    images = build_encoder(pinned, image_size=SIZE)
    assert torch.equal(
        _features(images, "image"),
        _features(build_encoder(f"transformers:{folder}", image_size=SIZE), "image"),
    )
    for part in (tmp_path / "cache").rglob("*-00001-of-*"):
        part.resolve().unlink()
    hub.requests.clear()
    assert pinned_encoder(pinned) == pinned
    assert len(hub.downloaded()) == 1

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    base = Transformer(str(checkpoints / "texts"))
    model = SentenceTransformer(modules=[base, Pooling(8), Dense(8, 4)], device="cpu")
    model.save(str(tmp_path / "modules"))
    hub.add("some/modules", _with_code(tmp_path / "modules"))
    found = build_encoder("text:some/modules")
    assert found.feature_dim == 4
    local = build_encoder(f"text:{tmp_path / 'modules'}")
    assert torch.equal(_features(found, "text"), _features(local, "text"))


@pytest.mark.parametrize("kind", ["vit-classifier", "clip", "siglip", "resnet", "mae"])
def test_what_reads_images_is_told_by_its_configuration(hub: StandIn, tmp_path: Path, kind: str) -> None:
    write_transformers(tmp_path / kind, kind)
    hub.add(f"some/{kind}", tmp_path / kind)
    assert encoder_modality(f"hf:some/{kind}") == "image"
    assert hub.downloaded() == {"config.json", "preprocessor_config.json"}


def test_photographs_get_one_of_the_hub_where_the_environment_says_so(
    hub: StandIn, recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = ImageLook(width=300, height=200, side=None, gray=False)
    recipe = recipe_of(tmp_path, "auto", trainable="all")
    monkeypatch.setenv(IMAGE_ENCODER, f"hf:{DINO}")
    commit = hub.repositories[DINO].refs["main"]
    choice = choose_encoder(recipe, look)
    assert (choice.encoder, choice.images.size) == (f"transformers:hf-hub:{DINO}@{commit}", SIZE)
    monkeypatch.setenv(IMAGE_ENCODER, "hf:nobody/nothing")
    choice = choose_encoder(recipe, look)
    assert choice.encoder == SMALL_ENCODER
    assert "has no repository 'nobody/nothing'" in str(choice.warning)


@pytest.fixture
def recipe_of() -> Callable[..., Recipe]:
    """A recipe of a second or two, as the command line reads it."""

    def make(data: Path, encoder: str, **settings: object) -> Recipe:
        chosen = {
            "data": str(data),
            "objective": "ce",
            "encoder": encoder,
            "epochs": 1,
            "batch_size": 12,
            "val": 0.2,
            "accelerator": "cpu",
            "trainable": "head",
            **settings,
        }
        return with_absolute_paths(parser_of("ce").recipe(settings=chosen))

    return make


def _encoders_of(run: RunFolder) -> set[str]:
    """Those in the recipe of a run, and in the description of its model."""
    return {
        read_recipe(run.recipe).encoder,
        Recipe.from_dict(ModelDescription.load(run.description).settings).encoder,
    }


def test_a_run_keeps_the_commit_that_it_began_with(
    hub: StandIn, recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    typed = recipe_of(image_folder, f"hf:{DINO}", pooling="cls", views="identity")
    assert typed.encoder == f"hf:{DINO}"
    run = train(typed, tmp_path / "run", progress_bar=False)
    first = hub.repositories[DINO].refs["main"]
    assert _encoders_of(run) == {f"transformers:hf-hub:{DINO}@{first}"}
    _other_commit(hub, DINO, tmp_path / "later")
    hub_module._listing.cache_clear()
    hub.requests.clear()
    run.encoder.unlink()  # as if it had been stopped
    train(typed, run.path, progress_bar=False)  # the same command continues it
    assert run.encoder.is_file()
    train(typed, run.path, progress_bar=False)  # and does nothing
    train(read_recipe(run.recipe), tmp_path / "again", progress_bar=False)
    assert _encoders_of(RunFolder(tmp_path / "again")) == _encoders_of(run)
    assert run_tables(run.path, ["untrained"])[1].keys() == {"untrained"}
    assert hub.requests == []


def test_a_finished_run_needs_neither_hub_nor_cache(
    hub: StandIn, recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    run = train(
        recipe_of(image_folder, "timm:vit_tiny_patch16_224", pretrained=True, views="identity"),
        tmp_path / "run",
        progress_bar=False,
    )
    assert _encoders_of(run) == {f"timm:hf-hub:{TIMM}@{hub.repositories[TIMM].refs['main']}"}
    files = sorted(image_folder.rglob("*.png"))[:6]
    before = lt.load(run.path).embed(files).embeddings
    shutil.rmtree(tmp_path / "cache")
    hub_module._listing.cache_clear()
    hub.requests.clear()
    assert torch.equal(lt.load(run.path).embed(files).embeddings, before)
    with pytest.warns(UserWarning, match="left out: the encoder before training; .*is not in the cache"):
        assert run_tables(run.path, ["untrained"])[1] == {}
    assert hub.requests == []


def test_all_folds_have_the_commit_of_the_first(
    hub: StandIn, recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    recipe = recipe_of(image_folder, f"hf:{DINO}", views="identity")
    folds = train_folds(recipe, 2, tmp_path / "folds", progress_bar=False)
    first, second = map(RunFolder, fold_runs(folds.path))
    shutil.rmtree(second.path)  # as if it had been stopped before
    _other_commit(hub, DINO, tmp_path / "later")
    hub_module._listing.cache_clear()
    train_folds(recipe, 2, tmp_path / "folds", progress_bar=False)
    assert _encoders_of(first) == _encoders_of(second)
