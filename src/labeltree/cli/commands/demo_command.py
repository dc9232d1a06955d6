"""`labeltree demo`: drawn birds, a model of them and its report, without network."""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.errors import DataError
from labeltree.options.demo import DemoOptions

SUMMARY = "draw a small data set, train on it and open the report: the first thing to try"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""

_TRAINING = "--image_size 32 --epochs 24 --batch_size 64 --optimizer.lr 0.003 --quiet"
_FILED_WRONGLY = {  # a picture, and the species that it is filed under
    "songbirds/tits/great-tit/007.png": "waterfowl/ducks/mallard",
    "raptors/falcons/kestrel/011.png": "songbirds/finches/greenfinch",
    "waterfowl/geese/greylag-goose/019.png": "raptors/hawks/buzzard",
}
_PICTURES = 80  # of a species


def run(arguments: list[str]) -> None:
    """Draw the birds, train, evaluate, open the report, and print what to type next."""
    parser = make_parser(
        "demo",
        DemoOptions,
        description="Draw 1,040 pictures of birds of 13 species in nested folders, train a model on them, "
        "evaluate it and open its report in the browser. Needs neither network nor graphics card, and a "
        "minute or two on two processor cores. Three pictures are put into wrong folders, for 'labeltree "
        "suspects' to find. Prints every command that it runs, and three to try next.",
    )
    options = read_options(DemoOptions, parser.parse_args(arguments))
    out = Path(options.out)
    birds, new, trained = out / "birds", out / "new", out / "run"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"'{out}' exists; delete it, or name another folder with --out")

    from labeltree.datasets.drawn_birds import draw_birds

    number = draw_birds(birds, _PICTURES)
    for picture, species in _FILED_WRONGLY.items():
        (birds / picture).rename(birds / species / f"{_PICTURES:03d}.png")
    draw_birds(new, 2, seed=7)
    print(f"{number:,} pictures in {birds}, {len(_FILED_WRONGLY)} of them in wrong folders", flush=True)

    searches = find_spec("lancedb") is not None
    _run(f"train --data {_word(birds)} {_TRAINING} --out {_word(trained)}")
    _run(f"evaluate {_word(trained)} --classifier probe")
    if searches:
        _run(f"index {_word(trained)}")
    _open(trained / "report.html", wanted=not options.no_open)
    print("\n".join(["", "next, to type as it stands:", *_next_steps(trained, new, searches=searches)]))


def _word(path: Path) -> str:
    return shlex.quote(str(path))


def _run(command: str) -> None:
    """Show a command, and run it."""
    from labeltree.plugins import own_parts

    print(f"\n$ labeltree {command}", flush=True)
    name, *words = shlex.split(command)
    own_parts("commands")[name].load().run(words)


def _open(report: Path, *, wanted: bool) -> None:
    """Open the report in the browser, if there is a screen to show one."""
    screen = sys.platform in ("darwin", "win32") or any(
        name in os.environ for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    )
    shown = wanted and screen and webbrowser.open(report.absolute().as_uri())
    print(f"\n{report} {'is open' if shown else 'can be opened'} in the browser")


def _next_steps(trained: Path, new: Path, *, searches: bool) -> list[str]:
    """Three commands, and what they show."""
    cuckoo = _word(new / "cuckoos" / "cuckoo" / "000.png")
    steps = {f"labeltree suspects {_word(trained)} --top 5": "the pictures in wrong folders"}
    if searches:
        steps[f"labeltree search {_word(trained)} {cuckoo}"] = "what is most like a new cuckoo"
    if searches and find_spec("uvicorn") is not None and find_spec("fastapi") is not None:
        steps[f"labeltree explore {_word(trained)}"] = "all of it in the browser"
    else:
        steps[f"labeltree predict {_word(trained)} {_word(new)}"] = "answers, as fine as is sure"
    if not searches:
        steps["pip install 'labeltree[search,serve]'"] = "for search and the explorer"
    width = max(map(len, steps))
    return [f"  {step:<{width}}  # {shown}" for step, shown in steps.items()]
