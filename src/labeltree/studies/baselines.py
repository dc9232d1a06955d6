"""A study's baselines: the raw samples, and the encoder before training."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.inference.run_embeddings import RAW_NAMES, embed_source, raw_table, start_name
from labeltree.models import encoder_modality
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import read_json
from labeltree.studies.run import METRICS, is_measured, measure, scores_of
from labeltree.studies.study_plan import Study, slug
from labeltree.studies.study_results import Book
from labeltree.training.experiment import prepare
from labeltree.training.network import move_to_usual_device
from labeltree.training.recipe_data import open_recipe_source
from labeltree.training.resolution import resolve_recipe

__all__ = ["baseline_digests", "measure_baselines"]


def baseline_digests(study: Study, seed: int) -> dict[str, str]:
    """Digest of everything that each of a seed's baselines depends on; the samples are the first method's."""
    method = study.methods[0]
    digest = study.digest(method, method.trials[0], seed)
    return {kind: f"{digest}-{kind}" for kind in study.baselines}


def measure_baselines(study: Study, runs: Path, book: Book) -> list[dict[str, Any]]:
    """Measure the raw samples (the seed only splits them) and the untrained encoder, for every seed.

    Known results are not measured again. Tables that are equal for several seeds, as with fixed splits and
    published weights, are measured once.
    """
    rows, measured = [], dict[str, dict[str, Any]]()
    for seed in study.seeds:
        settings = baseline_digests(study, seed)
        method = study.methods[0]
        defaults = study.defaults(method, method.trials[0], seed)
        if all(book.has_result(digest, defaults) for digest in settings.values()):
            continue
        recipe = study.recipe(study.methods[0], study.methods[0].trials[0], seed)
        source = open_recipe_source(recipe)
        resolved = resolve_recipe(recipe, source)
        modality = encoder_modality(resolved.encoder)
        names = {"raw": RAW_NAMES[modality], "start": start_name(resolved)}
        for kind, digest in settings.items():
            folder = RunFolder(runs / f"{slug(names[kind])}-seed{seed}")
            if not is_measured(folder, digest, defaults) or not folder.recipe.is_file():
                network = None if kind == "raw" else move_to_usual_device(prepare(recipe, source).network)
                table = (
                    raw_table(source, modality)
                    if network is None
                    else embed_source(network, source, adapted=False)
                )
                key = _digest(table)
                if key not in measured:
                    measured[key] = measure(study, table, source, network)
                recipe.save(folder.recipe)
                folder.write_json(
                    folder.metrics, {**measured[key], "digest": digest, "defaults": defaults}
                )  # last: done
            metrics = read_json(folder.metrics, METRICS)
            row = {"method": names[kind], "seed": seed, "settings": digest, "scores": scores_of(metrics)}
            rows.append({**row, "defaults": metrics.get("defaults")})
    return rows


def _digest(table: EmbeddingTable) -> str:
    """Digest of everything that an evaluation reads from a table without an objective."""
    digest = hashlib.sha256("".join(np.asarray(table.split, dtype=str).tolist()).encode())
    for column in (table.embeddings, table.features, table.nodes, table.aspects):
        if column is not None:
            digest.update(column.contiguous().numpy().tobytes())
    return digest.hexdigest()
