"""Draw little birds into nested folders, order/family/species: pictures to try the library with.

    python docs/examples/drawn_birds.py birds/

Every bird differs in size, place, direction, light and background. Two things are as in nature: the two geese
hardly differ except in their bills, and a cuckoo looks like a sparrowhawk, which is not related to it.
"""

import argparse
from pathlib import Path

from labeltree.datasets.drawn_birds import BIRDS, NEW_BIRDS, draw_birds

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the folders of pictures go")
    parser.add_argument("--each", type=int, default=40, help="pictures of every species (default: 40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--new", action="store_true", help="draw a species that is not among the first ones")
    options = parser.parse_args()
    birds = NEW_BIRDS if options.new else BIRDS
    print(f"{draw_birds(options.folder, options.each, options.seed, birds)} pictures in {options.folder}")
