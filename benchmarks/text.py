"""Time of text encoders: tokens, a pass forward, a training step; batches and views of tokens beside them.

    python benchmarks/text.py [--encoders minilm small-text] [--repeats 7]

The best of several repeats on one thread, in CPU seconds of the process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from labeltree.data import TextViews, TokenStore
from labeltree.models import build_encoder

WORDS = ("animal", "big", "dog", "family", "house", "in", "large", "market", "of", "red", "small", "the")
TEXTS = 2_000
LENGTHS = {20: 64, 100: 32}  # tokens of a text: texts of a batch


def best(function: Callable[[], object], repeats: int) -> float:
    """The least CPU seconds of a call; the first call is not counted."""
    function()
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        seconds.append(time.process_time() - began)
    return min(seconds)


def texts_of(count: int, words: int) -> list[str]:
    """Texts of words that are one token each."""
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, words)) for _ in range(count)]


def measure(name: str, repeats: int) -> None:
    """Texts a second."""
    encoder = build_encoder(name)
    deletion = TextViews("word-deletion")
    added = len(encoder.tokenize([""]).ids)
    for length, batch in LENGTHS.items():
        texts = texts_of(TEXTS, length - added)
        tokenising = best(lambda texts=texts: encoder.tokenize(texts), 2)
        store = TokenStore(*encoder.tokenize(texts))
        rows = torch.arange(batch)

        def load(store: TokenStore = store, rows: torch.Tensor = rows) -> torch.Tensor:
            return deletion(store.load(rows), rows)

        tokens = TextViews("dropout")(store.load(rows), rows)

        def step(tokens: torch.Tensor = tokens) -> None:
            encoder.zero_grad()
            encoder(tokens).square().sum().backward()

        encoder.eval()
        with torch.no_grad():
            forward = best(lambda tokens=tokens: encoder(tokens), repeats)
        encoder.train()
        both = best(step, repeats)
        print(
            f"{name:14} {length:>7} {TEXTS / tokenising:>14,.0f} {batch / best(load, repeats):>14,.0f} "
            f"{batch / forward:>14,.0f} {batch / both:>14,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoders", nargs="+", default=["minilm", "small-text"])
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    columns = "tokens", "tokenised", "word deletion", "forward", "with backward"
    print(f"{'texts a second':14} {columns[0]:>7} " + " ".join(f"{column:>14}" for column in columns[1:]))
    for encoder_name in chosen.encoders:
        measure(encoder_name, chosen.repeats)
