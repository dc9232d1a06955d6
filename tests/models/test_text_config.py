"""A text encoder from what it wrote of its configuration: no weights, the same tokens and features."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.models import AdaptedEncoder, TextEncoder, build_encoder
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

TEXTS = ["A small dog.", "dogs barking dogs", "", "small e5: bark"]


def write_sentence_model(folder: Path, tmp_path: Path) -> Path:
    """A model of sentence-transformers with a prompt, a projection and a normalisation."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    body = Transformer(str(write_tiny_transformer(tmp_path / "body")), max_seq_length=6)
    SentenceTransformer(
        modules=[body, Pooling(8, pooling_mode="cls"), Dense(8, 5), Normalize()],
        device="cpu",
        prompts={"query": "e5: "},
        default_prompt_name="query",
    ).save_pretrained(str(folder))
    shutil.rmtree(tmp_path / "body")
    return folder


@pytest.fixture(params=["Bert", "MPNet", "DistilBert", "sentence"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "sentence":
        return write_sentence_model(tmp_path / "model", tmp_path)
    return write_tiny_transformer(tmp_path / "model", request.param)


def read(encoder: TextEncoder) -> tuple[list[np.ndarray], torch.Tensor]:
    tokens = encoder.tokenize(TEXTS)
    rows = [torch.from_numpy(part.astype(np.int64)) for part in np.split(tokens.ids, tokens.offsets[1:-1])]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    with torch.no_grad():
        return list(tokens), encoder.eval()(padded)


def test_the_same_encoder_without_its_folder(folder: Path, tmp_path: Path, monkeypatch) -> None:
    encoder = build_encoder(f"text:{folder}")
    config = tmp_path / "config"
    config.mkdir()
    AdaptedEncoder(encoder, 4).save_config(config)
    shutil.rmtree(folder)
    for file in config.rglob("*.json"):
        assert str(tmp_path) not in file.read_text("utf-8"), file.name
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: pytest.fail("nothing may be asked"))
    again = build_encoder(f"text:{folder}", config=config)
    again.load_state_dict(encoder.state_dict())
    (tokens, features), (expected_tokens, expected) = read(again), read(encoder)
    assert all(map(np.array_equal, tokens, expected_tokens))
    assert torch.equal(features, expected)
    assert (again.max_length, again.prompt) == (encoder.max_length, encoder.prompt)
    second = tmp_path / "second"
    second.mkdir()
    again.save_config(second)  # a run that is trained further from this one
    assert (second / "encoder.json").read_text() == (config / "encoder.json").read_text()


def test_its_tokenizer_needs_no_library_but_tokenizers(folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    encoder = build_encoder(f"text:{folder}")
    config = tmp_path / "config"
    config.mkdir()
    encoder.save_config(config)
    kept = json.loads((config / "encoder.json").read_text())
    tokenizer = Tokenizer.from_file(str(config / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(kept["max_length"])
    ids = [encoded.ids for encoded in tokenizer.encode_batch([kept["prompt"] + text for text in TEXTS])]
    assert [one for some in ids for one in some] == encoder.tokenize(TEXTS).ids.tolist()


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("encoder.json", lambda kept: {}),
        ("encoder.json", lambda kept: {**kept, "version": 99}),
        ("encoder.json", lambda kept: {**kept, "model": "PreTrainedTokenizerFast"}),
        ("encoder.json", lambda kept: {**kept, "after": ["os.system"]}),
        ("encoder.json", lambda kept: {**kept, "after": ["transformers.no.such.Thing"]}),
        ("config.json", lambda kept: {"model_type": "no-such"}),
        ("tokenizer.json", lambda kept: {}),
    ],
)
def test_a_damaged_configuration(tmp_path: Path, file: str, change) -> None:
    encoder = build_encoder(f"text:{write_tiny_transformer(tmp_path / 'model')}")
    config = tmp_path / "config"
    config.mkdir()
    encoder.save_config(config)
    kept = json.loads((config / file).read_text())
    (config / file).write_text(json.dumps(change(kept)))
    with pytest.raises(DataError, match=r"cannot be read as the configuration of an encoder: .*; restore it"):
        build_encoder(encoder.name, config=config)


def test_a_folder_that_is_not_there_is_ignored(tmp_path: Path) -> None:
    assert build_encoder("small-text", config=tmp_path / "none").feature_dim == 128
    assert build_encoder("small-text", config=tmp_path).feature_dim == 128
    folder = write_tiny_transformer(tmp_path / "model")
    assert build_encoder(f"text:{folder}", config=tmp_path / "none").feature_dim == 8


def test_threads_with_other_lengths_do_not_disturb_each_other(tmp_path: Path) -> None:
    encoder = build_encoder(f"text:{write_tiny_transformer(tmp_path / 'model')}")

    def cut(most: int) -> bool:
        tokens = encoder.tokenize(["a small dog barking dogs a small dog"] * 20, most)
        return bool((np.diff(tokens.offsets) == most).all())

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(cut, [3 + n % 8 for n in range(600)]))
