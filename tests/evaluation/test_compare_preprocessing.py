"""What standardisation alone brings is not credited to training."""

from types import SimpleNamespace
from typing import Any

from labeltree.evaluation.comparing.compare_runs import _note_preprocessing
from labeltree.runs.embedding_table import RAW_VECTORS, STANDARDISED_VECTORS


def _run(name: str, **recall: float) -> Any:
    """An evaluation with the recall@1 of each method."""
    methods = {
        method.replace("_", " "): SimpleNamespace(score=lambda *_, value=value: value)
        for method, value in recall.items()
    }
    return SimpleNamespace(name=name, methods=methods)


def test_vectors_that_others_read_as_they_are_are_told() -> None:
    trained = _run("supcon", supcon=0.9, standardised_vectors=0.85, raw_vectors=0.7)
    assert {*trained.methods} == {"supcon", STANDARDISED_VECTORS, RAW_VECTORS}
    (note,) = _note_preprocessing({"supcon": [trained], "features": [_run("features", features=0.7)]})
    assert note == (
        "'supcon' reads vectors standardised by column; whether 'features' does, is not known. A part of the "
        "difference may be that of the standardisation, not of training. Without any training, recall@1 is "
        "0.8500 of the standardised vectors and 0.7000 of the raw vectors."
    )


def test_runs_with_the_same_preprocessing_or_other_samples_have_no_note() -> None:
    trained = _run("a", a=0.9, standardised_vectors=0.85, raw_vectors=0.7)
    assert _note_preprocessing({"a": [trained], "b": [trained]}) == []
    assert _note_preprocessing({"a": [trained], "b": [_run("b", b=0.9, untrained_encoder=0.1)]}) == []
    assert _note_preprocessing({"a": [_run("a", a=0.9)], "b": [_run("b", b=0.9)]}) == []
    assert _note_preprocessing({"a": [trained], "b": []}) == [], "nothing is known of it"
