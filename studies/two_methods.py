"""Two methods of a study on one score: mean and standard deviation over the seeds, and Welch's t-test.

python studies/two_methods.py fashion-mnist-all HWC SupCon features/hierarchical_f1

Reads the study's ``results.json``; the p value is two-sided and not corrected for the number of tests.
"""

import json
import sys
from pathlib import Path
from statistics import mean, stdev


def values(study: str, method: str, score: str) -> list[float]:
    """The score of every seed of a method.

    Raises:
        SystemExit: if the study has no such method or score, with those that it has.
    """
    file = Path(__file__).parent / study / "results.json"
    if not file.is_file():
        raise SystemExit(f"there is no '{file}'")
    rows = json.loads(file.read_text("utf-8"))["results"]
    own = [row["scores"] for row in rows if row["method"] == method]
    if not own:
        raise SystemExit(
            f"no method '{method}'; {study} has {', '.join(dict.fromkeys(r['method'] for r in rows))}"
        )
    if own[0].get(score) is None:
        raise SystemExit(f"'{method}' has no score '{score}'; it has {', '.join(own[0])}")
    return [scores[score] for scores in own]


def main() -> None:
    """Print the comparison that the command line names."""
    from scipy.stats import ttest_ind

    if len(sys.argv) != 5:
        raise SystemExit("usage: python studies/two_methods.py STUDY METHOD METHOD SCORE")
    study, first, second, score = sys.argv[1:]
    found = {method: values(study, method, score) for method in (first, second)}
    for method, own in found.items():
        print(f"{method}: {mean(own):.4f} ± {stdev(own):.4f} over {len(own)} seeds")
    print(f"p {ttest_ind(*found.values(), equal_var=False).pvalue:.4f}")


if __name__ == "__main__":
    main()
