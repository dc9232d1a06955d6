"""``python -m labeltree.studies FILE``: run or continue a study; `labeltree study` can more."""

import sys

from labeltree.studies.execute import execute

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m labeltree.studies STUDY.yaml")
    done = execute(sys.argv[1], jobs=1)
    print(done.tables)
    sys.exit(1 if done.failures else 0)
