"""The recipes of the papers, and miniatures of their data sets."""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

RECIPES = Path(__file__).parents[2] / "recipes"
# The folder of each paper, and how its recipes' sources begin.
PAPERS = {
    "zhang2022": "Zhang et al. 2022, Use All the Labels",
    "climbing": "Climbing the Label Tree (anonymous, under review)",
    "barz2019": "Barz & Denzler 2019, Hierarchy-based Image Embeddings",
    "feng2023": "Feng & Patras 2023, MaskCon",
    "ghanooni2025": "Ghanooni et al. 2025, MLCL",
}
TEXT = ("beeradvocate", "tripadvisor")  # their miniatures are in the official formats

# Children of every node, depth by depth: eight leaves at the depth that the data set's labels have.
TREES: dict[str, tuple[int, ...]] = {
    "breakhis": (2, 4),
    "cars-196": (2, 4),
    "cifar-100": (4, 2),
    "cifar-100-deep": (2, 1, 1, 2, 1, 1, 1, 2),
    "cifar-toy-bad": (2, 4),
    "cifar-toy-good": (2, 4),
    "deepfashion": (2, 4),
    "ham10000": (2, 4),
    "imagenet": (2, 1, 2, 2),
    "imagenet-32": (4, 2),
    "imagenet-robustness": (2, 1, 2, 2),
    "inaturalist-2017": (4, 2),
    "inaturalist-2019": (2, 1, 2, 1, 1, 1, 2),
    "inshop": (2, 2, 2),
    "inshop-items": (2, 4),
    "modelnet40": (4, 2),
    "nabirds": (2, 1, 2, 1, 2),
    "odir-5k": (4, 2),
    "sop-split1": (2, 4),
    "sop-split2": (2, 4),
}


@dataclass(frozen=True)
class PaperRecipe:
    """A recipe file, as it is written."""

    file: Path

    @property
    def name(self) -> str:
        """Folder and name."""
        return f"{self.file.parent.name}/{self.file.stem}"

    @cached_property
    def text(self) -> str:
        return self.file.read_text("utf-8")

    @cached_property
    def settings(self) -> dict[str, object]:
        """What it sets, nested."""
        content: dict[str, object] = yaml.safe_load(self.text)
        return content

    @property
    def title(self) -> str:
        """The first line, what it is of."""
        return self.text.splitlines()[0].removeprefix("# ").removesuffix(".")

    @property
    def source(self) -> str:
        """Tables and sections, from the second line."""
        whole = self.text.splitlines()[1].removeprefix("# Source: ").removesuffix(".")
        return whole.removeprefix(PAPERS[self.file.parent.name]).removeprefix(", ")


@cache
def paper_recipes() -> list[PaperRecipe]:
    """Every recipe of a paper."""
    return [PaperRecipe(file) for paper in PAPERS for file in sorted((RECIPES / paper).glob("*.yaml"))]


def write_miniature(folder: Path, children: tuple[int, ...], per_leaf: int = 4, size: int = 16) -> Path:
    """Nested folders of noise; nodes are named by depth and number, so every name occurs once."""
    rng = np.random.default_rng(0)
    for path in product(*(range(n) for n in children)):
        numbers = ["".join(map(str, path[: depth + 1])) for depth in range(len(path))]
        leaf = folder.joinpath(*(f"{'abcdefgh'[depth]}{number}" for depth, number in enumerate(numbers)))
        leaf.mkdir(parents=True)
        for sample in range(per_leaf):
            pixels = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(leaf / f"{sample}.png")
    return folder


def write_reviews(folder: Path, name: str, number: int = 60) -> Path:
    """Reviews of noise with ratings of noise, five to a hotel or beer, in the data set's own format."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(50)]
    aspects = {
        "beeradvocate": ["appearance", "aroma", "palate", "taste", "overall"],
        "tripadvisor": [
            "Overall", "Value", "Rooms", "Location", "Cleanliness", "Check in / front desk", "Service",
        ],
    }[name]  # fmt: skip
    folder.mkdir(parents=True)
    records: dict[int, list[str]] = {}
    for i in range(number):
        text, ratings = " ".join(rng.choice(words, 12)), rng.integers(1, 6, len(aspects))
        if name == "beeradvocate":
            rated = "".join(f"review/{a}: {r}\n" for a, r in zip(aspects, ratings, strict=True))
            record = f"beer/beerId: {i // 5}\n{rated}review/text: {text}\n\n"
        else:
            rated = "".join(f"<{a}>{r}\n" for a, r in zip(aspects, ratings, strict=True))
            record = f"<Author>somebody\n<Content>{text}\n{rated}\n"
        records.setdefault(i // 5, []).append(record)
    for item, own in records.items():
        file = "beeradvocate.txt" if name == "beeradvocate" else f"hotel_{item}.dat"
        with (folder / file).open("a") as out:
            out.write("".join(own))
    return folder
