"""Text encoders: tokens, features, stages, dropout; the small one and transformers behind our interface."""

import copy
import pickle

import numpy as np
import pytest
import torch

from labeltree.models import (
    ProjectionHead,
    TextEncoder,
    TokenizedTexts,
    build_encoder,
    encoder_modality,
    load_weights,
    save_weights,
    set_trainable,
    usually_pretrained,
)
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

TEXTS = ["A small dog.", "dogs barking dogs", "", "small"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_transformer(tmp_path_factory.mktemp("bert"))


@pytest.fixture(params=["small-text", "transformer"])
def encoder(request, folder) -> TextEncoder:
    torch.manual_seed(0)
    name = "small-text" if request.param == "small-text" else f"text:{folder}"
    encoder = build_encoder(name)
    assert isinstance(encoder, TextEncoder)
    assert encoder.name == name
    return encoder


def filled(tokens: TokenizedTexts, width: int = 0) -> torch.Tensor:
    """(n, t) int64, filled up with -1."""
    lengths = np.diff(tokens.offsets)
    batch = torch.full((len(lengths), max(int(lengths.max()), width)), -1, dtype=torch.int64)
    for row, (start, length) in enumerate(zip(tokens.offsets, lengths, strict=False)):
        batch[row, :length] = torch.from_numpy(tokens.ids[start : start + length].astype(np.int64))
    return batch


def test_what_tokens_are(encoder) -> None:
    tokens = encoder.tokenize(TEXTS)
    assert (tokens.ids.dtype, tokens.words.dtype, tokens.offsets.dtype) == (np.int32, np.int32, np.int64)
    assert len(tokens.offsets) == len(TEXTS) + 1
    assert tokens.offsets[-1] == len(tokens.ids) == len(tokens.words)
    one_by_one = [encoder.tokenize([text]) for text in TEXTS]
    assert np.array_equal(np.concatenate([t.ids for t in one_by_one]), tokens.ids)
    assert np.array_equal(np.concatenate([t.words for t in one_by_one]), tokens.words)
    none = encoder.tokenize([])
    assert (len(none.ids), none.offsets.tolist()) == (0, [0])


def test_words_of_tokens(folder) -> None:
    tokens = build_encoder(f"text:{folder}").tokenize(["A dogs barking.", ""])
    assert tokens.words.tolist() == [-1, 0, 1, 1, 2, 2, 3, -1, -1, -1]
    assert tokens.ids.tolist() == [2, 4, 6, 7, 8, 9, 10, 3, 2, 3]
    small = build_encoder("small-text").tokenize(["Ein DOG, ein Hündchen — 子犬 snake_case!", "—"])
    assert small.words.tolist() == [0, 1, 2, 3, 4, 5]
    assert small.offsets.tolist() == [0, 6, 6]
    assert small.ids[0] == small.ids[2]  # in lower case


def test_words_keep_their_buckets_in_every_process() -> None:
    tokens = build_encoder("small-text").tokenize(["dog"])
    assert tokens.ids.tolist() == [0x812C397D % 65536]  # its CRC-32, on which saved weights depend


def test_long_texts_are_cut(encoder) -> None:
    tokens = encoder.tokenize(["dog " * 1000, "dog"], max_length=4)
    assert np.diff(tokens.offsets)[0] == 4
    most = np.diff(encoder.tokenize(["dog " * 1000]).offsets)[0]
    assert most == {"small-text": 512}.get(encoder.name, 24)
    assert np.diff(encoder.tokenize(["dog " * 1000], max_length=10_000).offsets)[0] == most
    with pytest.raises(ValueError, match="max_length is 0"):
        encoder.tokenize(["dog"], max_length=0)


@pytest.mark.parametrize("texts", [["a", None], ["a", 3.5], ["a", b"dog"]])
def test_what_is_not_a_text(encoder, texts) -> None:
    with pytest.raises(ValueError, match=r"text 1 is .*; expected a string"):
        encoder.tokenize(texts)
    with pytest.raises(ValueError, match="a single text; expected a sequence"):
        encoder.tokenize("dog")


def test_features_do_not_depend_on_padding_or_on_the_batch(encoder) -> None:
    encoder.eval()
    tokens = filled(encoder.tokenize(TEXTS))
    features = encoder(tokens)
    assert features.shape == (4, encoder.feature_dim)
    assert features.dtype == torch.float32
    assert features.isfinite().all()
    torch.testing.assert_close(encoder(filled(encoder.tokenize(TEXTS), width=23)), features)
    for row in range(4):
        torch.testing.assert_close(encoder(tokens[row : row + 1]), features[row : row + 1])
    assert (features[0] - features[3]).abs().max() > 1e-3
    many = filled(encoder.tokenize([" ".join(["dog", "small"] * (n * 7 % 5)) for n in range(40)]))
    torch.testing.assert_close(encoder(many), torch.cat([encoder(row[None]) for row in many]))


def test_texts_without_tokens_have_finite_features_and_gradients(encoder) -> None:
    for tokens in (
        torch.full((2, 3), -1, dtype=torch.int64),
        torch.empty(2, 0, dtype=torch.int64),
        torch.tensor([[5, 6], [-1, -1]]),
    ):
        encoder.zero_grad()
        features = encoder(tokens)
        assert features.shape == (2, encoder.feature_dim)
        features.square().sum().backward()
        assert features.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize("tokens", [torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64)])
def test_tokens_of_another_kind_are_refused(encoder, tokens) -> None:
    with pytest.raises(ValueError, match=r"it must be int64 \(b, t\)"):
        encoder(tokens)


def test_the_small_one_sees_the_order_of_words() -> None:
    encoder = build_encoder("small-text").eval()
    features = encoder(filled(encoder.tokenize(["the dog bites a man", "a man bites the dog", "dog"])))
    assert (features[0] - features[1]).abs().max() > 1e-3
    # Padding is no neighbour: a word alone has no bigram.
    rows = encoder.table.weight.detach()
    (word,) = encoder.tokenize(["dog"]).ids.tolist()
    torch.testing.assert_close(encoder.layers(rows[word : word + 1]), features[2:])


def test_the_mean_of_a_transformer_is_over_tokens(folder) -> None:
    """A name of transformers gets mean pooling; the loop is the oracle."""
    encoder = build_encoder(f"text:{folder}").eval()
    tokens = filled(encoder.tokenize(TEXTS))
    for row, ids in enumerate(tokens):
        ids = ids[ids >= 0][None]
        vectors = encoder.transformer(input_ids=ids).last_hidden_state[0]
        torch.testing.assert_close(encoder(tokens)[row], vectors.mean(0))


def test_pooling_and_normalisation_are_the_models_own(folder, tmp_path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(0)
    body = Transformer(str(folder))
    theirs = SentenceTransformer(
        modules=[body, Pooling(8, pooling_mode="cls"), Dense(8, 5), Normalize()],
        device="cpu",
        prompts={"query": "e5: "},
        default_prompt_name="query",
    )
    theirs.save(str(tmp_path / "model"))
    encoder = build_encoder(f"text:{tmp_path / 'model'}").eval()
    tokens = encoder.tokenize(TEXTS)
    assert encoder.feature_dim == 5
    expected = torch.from_numpy(theirs.encode(TEXTS))
    torch.testing.assert_close(encoder(filled(tokens)), expected, rtol=1e-6, atol=1e-6)
    # The prompt is part of every text, but its words are not the text's.
    assert tokens.words[: tokens.offsets[1]].tolist() == [-1, -1, -1, 0, 1, 2, 3, -1]


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "DistilBert"])
def test_stages_of_transformers(kind, tmp_path) -> None:
    encoder = build_encoder(f"text:{write_tiny_transformer(tmp_path, kind)}")
    held = [id(p) for stage in encoder.stages for p in stage.parameters()]
    assert len(held) == len(set(held))
    assert set(held) == {id(p) for p in encoder.parameters()}
    assert len(encoder.stages) == 1 + 3
    order = []
    position = {id(m): i for i, stage in enumerate(encoder.stages) for m in stage.modules()}
    for module in encoder.modules():
        if id(module) in position and not list(module.children()):
            module.register_forward_hook(lambda m, i, o: order.append(position[id(m)]))
    tokens = filled(encoder.tokenize(TEXTS))
    encoder(tokens).square().sum().backward()
    assert order == sorted(order)
    assert all(p.grad is not None for p in encoder.parameters())  # nothing is computed for nothing


@pytest.mark.parametrize(("policy", "last"), [("head", 0), ("last:1", 1), ("all", None)])
def test_frozen_parts_do_not_move_or_drop_out(encoder, policy, last) -> None:
    encoder.set_dropout(0.5)
    set_trainable(encoder, policy)
    encoder.eval()
    encoder.train()
    stages = encoder.stages
    trained = stages if last is None else stages[len(stages) - last :]
    dropouts = {id(m) for s in trained for m in s.modules() if isinstance(m, torch.nn.Dropout)}
    assert {id(m) for m in encoder.modules() if isinstance(m, torch.nn.Dropout) and m.training} == dropouts
    before = copy.deepcopy(encoder.state_dict())
    head = ProjectionHead(encoder.feature_dim, 4)
    parameters = [p for p in [*encoder.parameters(), *head.parameters()] if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    head(encoder(filled(encoder.tokenize(TEXTS)))).square().sum().backward()
    optimizer.step()
    after = encoder.state_dict()
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    ids = {id(p) for stage in trained for p in stage.parameters()}
    assert bool(moved) == (last != 0)
    assert moved <= {key for key, p in encoder.named_parameters() if id(p) in ids}
    if last == 0:
        tokens = filled(encoder.tokenize(TEXTS))
        assert torch.equal(encoder(tokens), encoder(tokens))


def test_dropout_makes_two_passes_differ(encoder) -> None:
    tokens = filled(encoder.tokenize(TEXTS))
    assert not torch.equal(encoder(tokens), encoder(tokens))  # as it comes
    encoder.set_dropout(0)
    passes = encoder(tokens), encoder(tokens)
    assert torch.equal(*passes)
    torch.testing.assert_close(passes[0], encoder.eval()(tokens))
    for p in (-0.1, 1.0):
        with pytest.raises(ValueError, match="dropout is"):
            encoder.set_dropout(p)


def test_copies_pickles_and_weights(encoder, tmp_path) -> None:
    encoder.eval()
    tokens = filled(encoder.tokenize(TEXTS))
    expected = encoder(tokens)
    for copied in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert torch.equal(copied(tokens), expected)
        assert np.array_equal(copied.tokenize(TEXTS).ids, encoder.tokenize(TEXTS).ids)
    save_weights(encoder, tmp_path / "encoder.safetensors")
    fresh = build_encoder(encoder.name, pretrained=False).eval()
    assert (fresh(tokens) - expected).abs().max() > 1e-3
    load_weights(fresh, tmp_path / "encoder.safetensors")
    assert torch.equal(fresh(tokens), expected)
    given = build_encoder(encoder.name, weights=tmp_path / "encoder.safetensors").eval()
    assert torch.equal(given(tokens), expected)


def test_it_learns_from_nothing() -> None:
    """Two kinds of texts, told apart by a pair of words that both kinds have one by one."""
    torch.manual_seed(0)
    encoder = build_encoder("small-text")
    head = torch.nn.Linear(encoder.feature_dim, 2)
    fillers = ["red", "old", "big", "new", "wet"]
    texts = [f"{a} {pair} {b}" for a in fillers for b in fillers for pair in ("up down", "down up")]
    kinds = torch.arange(len(texts)) % 2
    tokens = filled(encoder.tokenize(texts))
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(head(encoder(tokens)), kinds)
        loss.backward()
        optimizer.step()
    assert (head(encoder.eval()(tokens)).argmax(1) == kinds).all()


def test_what_is_known_of_an_encoder_without_building_it() -> None:
    assert [encoder_modality(n) for n in ("small-conv", "small-text", "minilm", "text:x", "timm:vit")] == [
        "image",
        "text",
        "text",
        "text",
        "image",
    ]
    assert [usually_pretrained(n) for n in ("small-conv", "small-text", "minilm", "text:x", "timm:x")] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert build_encoder("small-conv").modality == "image"
    assert build_encoder("small-text").modality == "text"
