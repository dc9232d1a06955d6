"""Spaces of samples and words: their vectors are those of the libraries, and what has no words is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from labeltree.errors import DataError
from labeltree.models.name_space import NameSpace, open_name_space
from tiny_checkpoints import MEAN, OPEN_CLIP, SIZE, STD, write_open_clip, write_transformers
from tiny_transformer import WORDS, write_tiny_transformer

TEXTS = ["a small dog", "dogs", "a dog barking. " * 20]
CLIP = OPEN_CLIP | {
    "text_cfg": {"layers": 1, "width": 8, "heads": 2, "vocab_size": 49408, "context_length": 8}
}


def pixels() -> torch.Tensor:
    return torch.randint(
        256, (3, 3, SIZE, SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )


def plain(images: torch.Tensor) -> torch.Tensor:
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    return (images.float() / 255 - mean) / std


def check_against(space: NameSpace, texts: torch.Tensor, images: torch.Tensor, scale: float) -> None:
    assert space.reads == "image"
    assert space.images is not None
    assert space.images.size == SIZE
    assert space.embed_images is not None
    assert torch.allclose(space.embed_texts(TEXTS), normalize(texts, dim=1), atol=1e-5)
    assert torch.allclose(space.embed_images(pixels()), normalize(images, dim=1), atol=1e-5)
    assert space.temperature == pytest.approx(1 / scale)


@torch.no_grad()
@pytest.mark.parametrize("custom", [False, True])
def test_both_towers_of_open_clip(custom: bool, tmp_path: Path) -> None:
    open_clip = pytest.importorskip("open_clip")
    config: dict[str, Any] = CLIP | ({"custom_text": True} if custom else {})
    model = write_open_clip(tmp_path / "clip", config)
    words = open_clip.SimpleTokenizer(context_length=8)(TEXTS)
    model.visual.image_mean = None
    space = open_name_space(f"open_clip:{tmp_path / 'clip'}")
    check_against(
        space, model.encode_text(words), model.encode_image(plain(pixels())), float(model.logit_scale.exp())
    )


def write_pair(folder: Path, kind: str) -> Any:
    """A model of transformers with both towers, and a tokenizer of a few words."""
    import transformers

    write_tiny_transformer(folder)
    (folder / "model.safetensors").unlink()
    model = write_transformers(folder, kind)
    sizes = {"vocab_size": len(WORDS), "max_position_embeddings": 12, "hidden_size": 16}
    tokens = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    model.config.text_config.update({**sizes, **tokens, "projection_size": 16})
    torch.manual_seed(2)
    model = getattr(transformers, type(model).__name__)(model.config).eval()
    model.save_pretrained(folder)
    return model


@torch.no_grad()
@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_both_towers_of_transformers(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = write_pair(tmp_path / "pair", kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "pair")
    padding: Any = "max_length" if kind == "siglip" else True  # the way that its authors trained it
    words = tokenizer(TEXTS, padding=padding, truncation=True, max_length=12, return_tensors="pt")
    given = {"input_ids": words["input_ids"], "pixel_values": plain(pixels())}
    if kind == "clip":
        given["attention_mask"] = words["attention_mask"]
    out = model(**given)
    check_against(
        open_name_space(f"transformers:{tmp_path / 'pair'}"),
        out.text_embeds,
        out.image_embeds,
        float(model.logit_scale.exp()),
    )


def test_a_text_encoder(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    write_tiny_transformer(tmp_path / "texts")
    space = open_name_space(f"text:{tmp_path / 'texts'}")
    many = TEXTS * 40  # more than are read at once
    model = sentence_transformers.SentenceTransformer(str(tmp_path / "texts"), device="cpu")
    expected = normalize(torch.from_numpy(model.encode(many)), dim=1)
    assert (space.reads, space.embed_images, space.temperature) == ("text", None, 0.05)
    assert torch.allclose(space.embed_texts(many), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("small-conv", "reads images alone, and no names"),
        ("vectors", "reads vectors alone, and no names"),
        ("small-text", "starts from random weights, to which names say nothing"),
        ("small-conv+small-text", "two encoders that share no space"),
    ],
)
def test_encoders_that_read_no_names_are_refused(name: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        open_name_space(name)


def test_checkpoints_without_a_text_tower_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("open_clip")
    write_transformers(tmp_path / "vit")
    with pytest.raises(DataError, match="it has no text tower to read names with"):
        open_name_space(f"transformers:{tmp_path / 'vit'}")
    write_open_clip(tmp_path / "few")  # whose vocabulary is not that of CLIP's tokenizer
    with pytest.raises(DataError, match="knows 9 tokens, and CLIP's tokenizer has 49,408"):
        open_name_space(f"open_clip:{tmp_path / 'few'}")
    config = tmp_path / "few" / "open_clip_config.json"
    config.write_text(config.read_text().replace('"text_cfg"', '"no_text"'))
    with pytest.raises(DataError, match="no text tower of its own"):
        open_name_space(f"open_clip:{tmp_path / 'few'}")
