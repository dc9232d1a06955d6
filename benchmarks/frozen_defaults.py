"""What `labeltree train` shall do with frozen features by default: docs/confirmation.md, "Second protocol".

    python benchmarks/frozen_defaults.py features --clones FOLDER --work FOLDER   # once, minutes
    python benchmarks/frozen_defaults.py run --work FOLDER [--sets NAME …]        # goes on where it stopped
    python benchmarks/frozen_defaults.py tables --work FOLDER [--out FILE]
    python benchmarks/frozen_defaults.py simulate

Two whole runs are made of the same frozen features: one whose head is solved (`tree-ridge`), one whose head
is trained (`pairs-proxies-means`, 256 dimensions, as `auto` takes it for photographs). In both, validation
chooses the classifier that answers and the space that is searched, as in every run. *run* keeps a JSON file
for each split in the work folder, *tables* makes means ± standard deviations and the verdicts, *simulate*
counts false alarms. `--sets` may name those of the first protocol, too, which were looked at before.

A third run, the trained head with `--space posterior`, was added when the sets had been looked at: it is
development, and has no verdict.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import confirmation
from confirmation import (
    ALPHA,
    SPLITS,
    Entry,
    Source,
    chance,
    holm,
    make_parser,
    paired,
    read_options,
    read_split,
    show,
    train_on,
    write_features,
)
from frozen_heads import Row, Samples, answer_scores, space_scores, written
from labeltree.atomic import atomic_write
from labeltree.decisions.classifiers import classify
from labeltree.inference.run_classifiers import run_classifiers
from labeltree.inference.run_embeddings import run_tables
from labeltree.runs import RunFolder
from labeltree.training.callbacks.checkpoints import best_row

SOLVED, TRAINED, POSTERIOR = "solved", "trained", "posterior"
VALIDATED = ("val_embeddings_map_at_r", "val_embeddings_ahp")  # their mean is kept, and decides nothing
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    SOLVED: ("tree-ridge", {}),
    TRAINED: ("pairs-proxies-means", {"head": {"dim": 256}}),
    POSTERIOR: ("pairs-proxies-means", {"head": {"dim": 256}, "space": "posterior"}),
}
MARGIN = 0.01  # of hierarchical F1
PRIMARY = {"hierarchical_f1": -MARGIN, "map_at_r": 0.0, "ahp": 0.0}  # what the difference shall be above
COLUMNS = (
    *("top1", "hierarchical_f1", "recall_at_1", "map_at_r"),
    *("ahp", "h_ap", "parent_violations", "pair_violations", "CPU s"),
)

MONKEYS = {  # family and genus
    "n0": "Atelidae/mantled howler",
    "n1": "Cercopithecidae/patas monkey",
    "n2": "Pitheciidae/bald uakari",
    "n3": "Cercopithecidae/Japanese macaque",
    "n4": "Callitrichidae/pygmy marmoset",
    "n5": "Cebidae/white-headed capuchin",
    "n6": "Callitrichidae/silvery marmoset",
    "n7": "Cebidae/common squirrel monkey",
    "n8": "Aotidae/black-headed night monkey",
    "n9": "Cercopithecidae/Nilgiri langur",
}
WASTE = {
    "paper": "fibres",
    "cardboard": "fibres",
    "glass": "containers",
    "metal": "containers",
    "plastic": "containers",
    "trash": "rest",
}
SCENES = {
    "buildings": "built",
    "street": "built",
    "forest": "nature",
    "glacier": "nature/height",
    "mountain": "nature/height",
    "sea": "nature",
}
TUMOURS = {
    "glioma_tumor": "tumour/within the brain",
    "meningioma_tumor": "tumour/beside the brain",
    "pituitary_tumor": "tumour/beside the brain",
    "no_tumor": "none",
}
BANKING = {  # what a customer's question is about; the 77 classes are the set's own
    "cards/getting one": (
        "card_arrival card_linking card_delivery_estimate activate_my_card getting_spare_card "
        "order_physical_card get_physical_card getting_virtual_card get_disposable_virtual_card "
        "disposable_card_limits visa_or_mastercard card_about_to_expire"
    ),
    "cards/not working": (
        "card_not_working contactless_not_working virtual_card_not_working card_swallowed "
        "apple_pay_or_google_pay card_acceptance"
    ),
    "cards/lost or blocked": (
        "lost_or_stolen_card lost_or_stolen_phone compromised_card pin_blocked change_pin passcode_forgotten"
    ),
    "payments/by card": (
        "card_payment_fee_charged card_payment_not_recognised card_payment_wrong_exchange_rate "
        "declined_card_payment pending_card_payment reverted_card_payment? transaction_charged_twice "
        "extra_charge_on_statement direct_debit_payment_not_recognised"
    ),
    "payments/refunds": "request_refund Refund_not_showing_up",
    "cash": (
        "atm_support cash_withdrawal_charge cash_withdrawal_not_recognised declined_cash_withdrawal "
        "pending_cash_withdrawal wrong_amount_of_cash_received wrong_exchange_rate_for_cash_withdrawal"
    ),
    "top-up/how": (
        "automatic_top_up top_up_limits topping_up_by_card top_up_by_cash_or_cheque "
        "top_up_by_bank_transfer_charge top_up_by_card_charge verify_top_up"
    ),
    "top-up/went wrong": "pending_top_up top_up_failed top_up_reverted",
    "transfers/went wrong": (
        "cancel_transfer declined_transfer failed_transfer pending_transfer beneficiary_not_allowed "
        "transfer_not_received_by_recipient balance_not_updated_after_bank_transfer "
        "balance_not_updated_after_cheque_or_cash_deposit"
    ),
    "transfers/how": "transfer_fee_charged transfer_into_account transfer_timing receiving_money",
    "currencies": (
        "exchange_charge exchange_rate exchange_via_app fiat_currency_support supported_cards_and_currencies"
    ),
    "account": "age_limit country_support edit_personal_details terminate_account",
    "identity": "why_verify_identity unable_to_verify_identity verify_my_identity verify_source_of_funds",
}


def monkeys(folder: Path) -> Iterator[Entry]:
    """Ten species of monkeys by family."""
    for file in sorted(folder.glob("*/n?/*.jpg")):
        yield file, tuple(MONKEYS[file.parent.name].split("/")), ""


def waste(folder: Path) -> Iterator[Entry]:
    """Trashnet's photographs of six kinds of waste, by what they are made for."""
    for file in sorted((folder / "dataset-resized").glob("*/*.jpg")):
        yield file, (WASTE[file.parent.name], file.parent.name), ""


def scenes(folder: Path) -> Iterator[Entry]:
    """Intel's landscapes: the 2,158 of its test part."""
    for file in sorted((folder / "test").glob("*/*.jpg")):
        yield file, (*SCENES[file.parent.name].split("/"), file.parent.name), ""


def tumours(folder: Path) -> Iterator[Entry]:
    """Magnetic resonance images of heads, with and without tumours of three kinds."""
    for file in sorted(folder.glob("T*ing/*/*.jpg")):
        yield file, (*TUMOURS[file.parent.name].split("/"), file.parent.name.replace("_", " ")), ""


def banking(folder: Path) -> Iterator[Entry]:
    """Questions to a bank; of each of the 77 intents at most 60, drawn once."""
    above = {intent: name for name, intents in BANKING.items() for intent in intents.split()}
    texts: dict[str, set[str]] = {}
    for part in ("train", "test"):
        with (folder / "banking_data" / f"{part}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                texts.setdefault(row["category"], set()).add(row["text"].strip())
    yield from _drawn({(*above[intent].split("/"), intent): some for intent, some in texts.items()}, 60)


def assistant(folder: Path) -> Iterator[Entry]:
    """Requests to an assistant at home, by scenario and intent (the set's own); at most 80 of each."""
    texts: dict[tuple[str, ...], set[str]] = {}
    for file in sorted(folder.glob("CrossValidation/auto*/*/CrossValidation/KFold_*/testset/csv/*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter=";"):
                path = row["scenario"], f"{row['scenario']} {row['intent']}"
                texts.setdefault(path, set()).add(row["answer_from_anno"].strip())
    yield from _drawn(texts, 80)


def _drawn(texts: dict[tuple[str, ...], set[str]], most: int) -> Iterator[Entry]:
    rng = np.random.default_rng(0)
    for path, several in sorted(texts.items()):
        different = sorted(several - {""})
        for place in rng.permutation(len(different))[:most]:
            yield different[place], path, ""


SETS = {
    "monkeys": Source("nikhildutta333/Monkey-Species-Classification", monkeys),
    "waste": Source("congduytran12/Trash-Classification-", waste),
    "scenes": Source("afroozsheikh/Intel-Image-Classifier", scenes),
    "tumours": Source("Shyam-daniel/testing12", tumours),
    "banking": Source("PolyAI-LDN/task-specific-datasets", banking, "minilm"),
    "assistant": Source("xliuhw/NLU-Evaluation-Data", assistant, "minilm"),
}
EARLIER = tuple(confirmation.SETS)  # looked at before: described, never tested
confirmation.SETS.update(SETS)


def run_row(method: str, samples: Samples, work: Path, seed: int) -> Row:
    """The numbers of a run of the features, with the classifier and the space that validation chooses."""
    out, seconds = train_on(samples, work, seed, *METHODS[method])
    loaded, tables = run_tables(out, ("trained",))
    classifiers, table = run_classifiers(loaded), tables["trained"]
    space = classifiers.chosen.space.name
    points = table.embeddings if space == "embeddings" else table.features
    assert points is not None
    answers = classify(classifiers.scores(), table)
    best = best_row(RunFolder(out).read_history(), VALIDATED[0])
    validated = float(np.mean([float(best[column]) for column in VALIDATED]))
    shutil.rmtree(out, ignore_errors=True)
    chosen = {
        "validation": validated,
        f"answered by {classifiers.chosen.name}": 1.0,
        f"searched {space}": 1.0,
    }
    scores = answer_scores(answers[samples.test], samples) | space_scores(points.double(), samples)
    return scores | {"CPU s": seconds} | chosen


def run(work: Path, names: list[str]) -> None:
    """Measure what is missing of these sets, split by split."""
    for seed in range(SPLITS):
        for name in names:
            kept = work / name / "defaults" / f"{seed}.json"
            rows = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
            missing = [method for method in METHODS if method not in rows]
            if not missing:
                continue
            samples = read_split(work, name, seed)
            rows |= {method: run_row(method, samples, work / name / "training", seed) for method in missing}
            kept.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(kept) as temporary:
                temporary.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
            print(f"{name}, split {seed}", flush=True)


def over_sets(differences: list[float], beyond: float) -> tuple[float, float, float, float]:
    """Mean over sets, the ends of its 95 % interval, and one-sided p of a true mean of `beyond` or less."""
    several = np.asarray(differences, dtype=float)
    mean, error = several.mean(), several.std(ddof=1) / np.sqrt(len(several))
    half = stats.t.ppf(0.975, len(several) - 1) * error
    p = chance(float(mean), float(error), len(several), beyond)
    return float(mean), float(mean - half), float(mean + half), p


def tables(work: Path, names: list[str]) -> Iterator[str]:
    """The table of every set, the differences, and the verdicts over the sets."""
    several: dict[str, list[dict[str, Row]]] = {}
    for name in names:
        files = sorted((work / name / "defaults").glob("*"))
        splits = [
            rows for file in files if METHODS.keys() <= (rows := json.loads(file.read_text("utf-8"))).keys()
        ]
        if not splits:
            continue
        several[name] = splits
        samples = read_split(work, name, 0)
        parts = f"{len(samples.train):,} + {len(samples.val):,} + {len(samples.test):,} samples"
        yield f"## {name}: {parts}, {len(samples.nodes.unique())} classes, {len(splits)} splits\n"
        yield "| | " + " | ".join(COLUMNS) + " | answered by | searched |"
        yield "|---|" + "---|" * (len(COLUMNS) + 2)
        for method in METHODS:
            rows = [each[method] for each in splits]
            cells = [
                written([row[column] for row in rows], 1 if column == "CPU s" else 3) for column in COLUMNS
            ]
            for start in ("answered by ", "searched "):
                chosen = Counter(
                    key.removeprefix(start) for row in rows for key in row if key.startswith(start)
                )
                cells.append(", ".join(f"{key} {count}" for key, count in sorted(chosen.items())))
            yield f"| {method} | " + " | ".join(cells) + " |"
        yield ""
    yield from _differences(SOLVED, several, PRIMARY)
    yield "The following was added when the sets had been looked at, and tests nothing.\n"
    yield from _differences(
        POSTERIOR, several, dict.fromkeys(("hierarchical_f1", "recall_at_1", "map_at_r", "ahp"))
    )


def _differences(
    method: str, several: dict[str, list[dict[str, Row]]], beyond: Mapping[str, float | None]
) -> Iterator[str]:
    """How far a method is from the trained one: by set, over the sets, and the verdicts, if there are any."""
    apart = {
        metric: {
            name: [each[method][metric] - each[TRAINED][metric] for each in splits]
            for name, splits in several.items()
        }
        for metric in beyond
    }
    yield f"## {method} − {TRAINED}\n"
    yield "| set | " + " | ".join(f"{metric}: difference, 95 % interval" for metric in beyond) + " |"
    yield "|---|" + "---|" * len(beyond)
    for name in several:
        cells = []
        for metric in beyond:
            mean, error = paired(apart[metric][name])
            half = stats.t.ppf(0.975, len(apart[metric][name]) - 1) * error
            cells.append(f"{mean:+.3f}, {mean - half:+.3f} to {mean + half:+.3f}")
        yield f"| {name} | " + " | ".join(cells) + " |"
    totals = {
        metric: over_sets([float(np.mean(each)) for each in apart[metric].values()], least or 0.0)
        for metric, least in beyond.items()
    }
    cells = [f"{mean:+.3f}, {low:+.3f} to {high:+.3f}" for mean, low, high, _ in totals.values()]
    yield "| **mean of the sets** | " + " | ".join(cells) + " |"
    if None not in beyond.values():
        corrected = holm([p for *_, p in totals.values()])
        held = [f"{p:.4f}, Holm {q:.4f}" for (*_, p), q in zip(totals.values(), corrected, strict=True)]
        yield "| p, one-sided | " + " | ".join(held) + " |"
        yield "| holds | " + " | ".join("yes" if p <= ALPHA else "no" for p in corrected) + " |"
    yield ""


def simulate(repetitions: int) -> None:
    """How often the test over six sets alarms, and its interval holds the true mean."""
    rng = np.random.default_rng(0)
    print("true mean  spread of sets  spread of splits   p ≤ .05 against the margin   95 % interval holds")
    for mean in (-MARGIN, 0.0, 0.005):
        for spread in (0.005, 0.01, 0.02):
            alarms = held = 0
            for _ in range(repetitions):
                true = mean + spread * rng.normal(size=len(SETS))
                seen = [float(np.mean(each + 0.008 * rng.normal(size=SPLITS))) for each in true]
                _, low, high, p = over_sets(seen, -MARGIN)
                alarms += p <= ALPHA
                held += low <= mean <= high
            print(
                f"{mean:+9.3f} {spread:15.3f} {0.008:17.3f}"
                f" {alarms / repetitions:28.3f} {held / repetitions:21.3f}"
            )


def main() -> None:
    parser = make_parser(__doc__, [*SETS, *EARLIER], list(SETS))
    parser.add_argument("--repetitions", type=int, default=20_000, help="of simulate")
    options = read_options(parser)
    if options.what == "simulate":
        simulate(options.repetitions)
    elif options.what == "features":
        write_features(options)
    elif options.what == "run":
        run(options.work, options.sets)
    else:
        show(tables(options.work, options.sets), options.out)


if __name__ == "__main__":
    main()
