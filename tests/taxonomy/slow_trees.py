"""Random trees with awkward names, and what is true of them by walking from node to node."""

from dataclasses import dataclass

from hypothesis import strategies as st

AWKWARD_NAMES = [
    *(
        "dog",
        "other",
        "a b",
        "root",
        "child",
        "T-shirt/top",
        "/",
        "/a",
        "a/",
        "a//b",
        "\\",
        "\\/",
        "a\\",
        "no",
        "1.0",
    ),
    *(
        "null",
        "~",
        "- x",
        "a: b",
        "#c",
        "x,y",
        "x;y",
        '"q"',
        "it's",
        "{",
        "[",
        "&x",
        "*x",
        "<<",
        "%",
        "@",
        "`",
        "é",
    ),
    *(
        "日本",
        "😀",
        "a\u200db",
        "\uffff",
        "\u00a0x\u00a0y",
        "0",
        "-1",
        "None",
        "nan",
        "!",
        "|",
        ">",
        "?",
        ":",
        "-",
    ),
]
REJECTED = ("Cc", "Cs", "Zl", "Zp")


def any_name() -> st.SearchStrategy[str]:
    text = st.text(
        st.characters(exclude_categories=REJECTED, exclude_characters="\ufeff"), min_size=1, max_size=6
    )
    # A taxonomy strips names, of no-break spaces too: what a test compares with is stripped alike.
    return (st.sampled_from(AWKWARD_NAMES) | text).map(str.strip).filter(bool)


@dataclass(frozen=True)
class Rows:
    """A tree as names and indices of parents (-1 for the root), in no particular order."""

    names: list[str]
    parents: list[int]

    def walk(self, row: int) -> list[int]:
        """The row, its parent, ... and the root."""
        steps = [row]
        while self.parents[steps[-1]] >= 0:
            steps.append(self.parents[steps[-1]])
        return steps

    def path(self, row: int) -> tuple[str, ...]:
        return tuple(self.names[step] for step in self.walk(row)[-2::-1])

    def depth(self, row: int) -> int:
        return len(self.walk(row)) - 1

    def children(self, row: int) -> list[int]:
        return [child for child, parent in enumerate(self.parents) if parent == row]

    def height(self, row: int) -> int:
        return max(self.depth(r) for r in range(len(self.names)) if row in self.walk(r)) - self.depth(row)

    def lca(self, row: int, other: int) -> int:
        above = self.walk(other)
        return next(step for step in self.walk(row) if step in above)


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 14) -> Rows:
    """A tree in random order: ragged, chains included, with equal names under different parents."""
    n = draw(st.integers(2, max_nodes))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    pool = draw(st.lists(any_name(), min_size=1, max_size=5))
    names: list[str] = []
    for row, parent in enumerate(parents):
        name = draw(st.sampled_from(pool))
        siblings = {names[r] for r in range(row) if parents[r] == parent}
        while name in siblings:
            name += "'"
        names.append(name)
    order = draw(st.permutations(range(n)))
    place = {row: i for i, row in enumerate(order)}
    return Rows([names[row] for row in order], [place.get(parents[row], -1) for row in order])
