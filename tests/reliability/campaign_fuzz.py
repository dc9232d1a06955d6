"""The large fuzz campaign, ``make campaign-fuzz FUZZ_CASES=3000``: exit code 1 if a case fails."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path


def main() -> int:
    """Run the cases, print those that fail as they come, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one case, by the seed that a failure is printed with")
    parser.add_argument("--folder", type=Path, help="keep the valid files there, and use those of before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = options.folder or Path(folder)
        os.environ["LABELTREE_DATA"] = str(work / "data")
        sys.path.append(str(Path(__file__).parents[1]))  # what tests of several rooms share
        import torch
        from fuzzing import Fuzzing
        from valid_files import make_valid_files

        torch.set_num_threads(1)
        begun = time.monotonic()
        valid = work / "valid"
        if not valid.is_dir():
            make_valid_files(valid)
        fuzzing = Fuzzing(valid, work)
        if options.only:
            print(fuzzing.case(options.only))
            return 0
        codes: Counter[str] = Counter()
        failed = 0
        for number in range(options.cases):
            case = fuzzing.case(f"{options.seed}/{number}")
            codes[
                "accepted" if case.code in (0, None) else "refused" if case.code in (1, 2) else "broken"
            ] += 1
            if case.faults:
                failed += 1
                print(case, flush=True)
        told = ", ".join(f"{count:,} {what}" for what, count in codes.most_common())
        print(
            f"{options.cases:,} cases, seed {options.seed}: {told}; {failed} failed "
            f"({time.monotonic() - begun:.0f} s)"
        )
        return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
