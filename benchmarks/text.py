"""Speed of text encoders: tokens, a pass forward, a training step; batches and views of tokens beside them.

    python benchmarks/text.py [--short] [--encoders minilm,small-text]

`minilm` needs its files (`labeltree data get minilm`) and the extra `text`; an encoder that cannot be built
is left out.
"""

from __future__ import annotations

import numpy as np
import torch

from harness import Results, Size, Table, best, choose, main
from labeltree.data import TextViews, TokenStore
from labeltree.models import build_encoder

WORDS = ("animal", "big", "dog", "family", "house", "in", "large", "market", "of", "red", "small", "the")
LENGTHS = {20: 64, 100: 32}  # tokens of a text: texts of a batch


def texts_of(count: int, words: int) -> list[str]:
    """Texts of words that are one token each."""
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, words)) for _ in range(count)]


def speeds(name: str, count: int, repeats: int) -> list[list[str | float]]:
    """Texts a second, a row per length."""
    encoder = build_encoder(name)
    deletion, dropout = TextViews("word-deletion"), TextViews("dropout")
    added = len(encoder.tokenize([""]).ids)
    rows: list[list[str | float]] = []
    for length, batch in LENGTHS.items():
        texts = texts_of(count, length - added)
        tokenising, _ = best(lambda texts=texts: encoder.tokenize(texts), 2)  # type: ignore[misc]
        store, index = TokenStore(*encoder.tokenize(texts)), torch.arange(batch)
        tokens = dropout(store.load(index), index)

        def load(store: TokenStore = store, index: torch.Tensor = index) -> torch.Tensor:
            return deletion(store.load(index), index)

        def forward(tokens: torch.Tensor = tokens) -> None:
            with torch.no_grad():
                encoder(tokens)

        def step(tokens: torch.Tensor = tokens) -> None:
            encoder.zero_grad()
            encoder(tokens).square().sum().backward()

        loading, _ = best(load, repeats)
        encoder.eval()
        passing, _ = best(forward, repeats)
        encoder.train()
        both, _ = best(step, repeats)
        rows.append([name, length, count / tokenising, *(batch / s for s in (loading, passing, both))])
    return rows


def measure(size: Size, encoders: str | None = None) -> Results:
    """Texts per CPU second, the best of several repeats."""
    if encoders is None:
        encoders = choose(size, full="minilm,small-text", short="small-text", tiny="small-text")
    count, repeats = choose(size, full=(2_000, 7), short=(500, 3), tiny=(64, 1))
    rows, notes = [], []
    for name in encoders.split(","):
        try:
            rows += speeds(name, count, repeats)
        except (ImportError, OSError, ValueError) as error:
            notes.append(f"{name} is left out, as it cannot be built here ({type(error).__name__}).")
    columns = ("encoder", "tokens", "tokenised", "word deletion", "forward", "with backward")
    return Results([Table("Texts per CPU second, dropout on", columns, rows)], {}, notes)


if __name__ == "__main__":
    main(__doc__, measure, {"encoders": "names, with commas between"})
