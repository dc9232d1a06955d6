"""Which objectives lowered their loss, and beat raw pixels on recall@1 or AHP, features or embeddings.

    python studies/fashion-mnist-all/against_pixels.py [results.json]

Reads what the study has written; means over its seeds.
"""

import json
import statistics
import sys
from pathlib import Path

MEASURES = ("features/recall_at_1", "embeddings/recall_at_1", "features/ahp", "embeddings/ahp")


def main() -> None:
    """Print one line a method."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("results.json")
    runs: dict[str, list[dict]] = {}
    for result in json.loads(path.read_text("utf-8"))["results"]:
        runs.setdefault(result["method"], []).append(result)

    def mean(method: str, measure: str) -> float:
        return statistics.mean(run["scores"][measure] for run in runs[method])

    print(f"{'method':<28}{'loss, first → last epoch':<28}" + "".join(f"{m:>24}" for m in MEASURES))
    for method, of_method in runs.items():
        curves = [run["train_loss"] for run in of_method if "train_loss" in run]
        loss = " → ".join(f"{statistics.mean(c[i] for c in curves):.4g}" for i in (0, -1)) if curves else "–"
        beats = [
            f"{mean(method, m):.4f}{' +' if mean(method, m) > mean('raw pixels', m) else '  '}"
            for m in MEASURES
        ]
        print(f"{method:<28}{loss:<28}" + "".join(f"{text:>24}" for text in beats))


if __name__ == "__main__":
    main()
