"""``python -m labeltree.studies FILE``: run or continue a study."""

import sys

from labeltree.studies.execute import execute

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m labeltree.studies STUDY.yaml")
    print(execute(sys.argv[1]))
