"""Pages that list others: the studies, the studies of papers' data, and the measurements."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from staging import Stage

from labeltree.metrics.catalogue import list_metrics

__all__ = ["list_measurements", "list_numbers", "list_papers", "list_studies"]


def list_studies(root: Path) -> str:
    """The page that lists all studies with their titles."""
    lines = [
        "# All studies",
        "",
        "Each study trains several methods under one protocol, with several seeds, and prints all numbers.",
        "[What we found](../findings.md) says what they mean together.",
        "",
    ]
    for page in sorted(root.glob("studies/*/README.md")):
        name = page.parent.name
        heading = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
        lines.append(f"- [{name}]({name}.md): {heading[1] if heading else ''}")
    return "\n".join(
        [*lines, "", "The [studies of the papers' own data](papers.md) wait for whoever has the data.", ""]
    )


def list_numbers() -> str:
    """The page that lists every number that is measured."""
    lines = [
        "# Numbers by name",
        "",
        "Every number has one name on the terminal, in reports, comparisons and studies. Its key stands in",
        "`metrics.json` and in study files, behind the role that it is measured of, such as `features` or",
        "`embeddings`, and after what answers: `lda_top1`, `prototype_top1` (the nearest class mean),",
        "`own_top1` (the model itself). `{}` stands for a number.",
        "",
        "| name | key | better | unit | what it says | defined in |",
        "|---|---|---|---|---|---|",
    ]
    for metric in list_metrics():
        words = {"sample": "sample", "samples": "samples", "hp_k": "250"}
        sentence = metric.sentence
        for name, word in words.items():
            sentence = sentence.replace(f"{{{name}}}", word)
        better = {True: "more", False: "less", None: "–"}[metric.larger_is_better]
        lines.append(
            f"| {metric.name} | `{metric.key}` | {better} | {metric.unit} | {sentence} | {metric.paper} |"
        )
    return "\n".join([*lines, ""])


def list_papers(root: Path) -> str:
    """The page that lists the studies of data that we do not have."""
    lines = [
        "# Studies of the papers' data",
        "",
        "These studies are written and have not been run: their data must be fetched from their owners. Run",
        "one with `labeltree study studies/papers/NAME/study.yaml`; [studies](../studies.md) says how.",
        "",
    ]
    return "\n".join(
        [
            *lines,
            *(f"- `{path.parent.name}`" for path in sorted(root.glob("studies/papers/*/study.yaml"))),
            "",
        ]
    )


def list_measurements(root: Path) -> str:
    """The page that lists all measurements of time, memory and accuracy."""
    folder = root / "benchmarks" / "results"
    lines = [
        "# Measurements",
        "",
        "What the scripts in `benchmarks/` measured. Each page begins with its command and its machine.",
        "[Performance](../performance.md) says what the numbers mean.",
        "",
    ]
    for page in sorted(folder.rglob("*.md")):
        name = (
            Stage.place(PurePosixPath(page.relative_to(root)))
            .relative_to("benchmarks")
            .with_suffix("")
            .as_posix()
        )
        lines.append(f"- [{name.replace('_', ' ')}]({name}.md)")
    return "\n".join([*lines, ""])
