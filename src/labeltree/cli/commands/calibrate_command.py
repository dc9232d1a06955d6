"""``labeltree calibrate``: fit the decision rule of a trained run and write it to the run folder."""

from __future__ import annotations

import argparse
import sys

from labeltree.cli.run_options import add_classifier, add_verify
from labeltree.errors import typed

SUMMARY = "calibrate a run's probabilities and the thresholds of its answers"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Fit the decision rule requested by the arguments, and print its quality."""
    from labeltree.decisions import CALIBRATIONS

    parser = argparse.ArgumentParser(
        prog="labeltree calibrate",
        description="Calibrate the answers of a run: probabilities that match frequencies, and "
        "scores from which any coverage can be promised. Writes decisions.json, which 'labeltree "
        "predict' reads.",
    )
    parser.add_argument("run", help="the run folder")
    parser.add_argument(
        "--data",
        help="labelled samples to calibrate on; default: those of the run: validation "
        "samples, or for thresholds those that --calib of 'labeltree train' has set aside",
    )
    parser.add_argument("--data-path", help="with --data NAME: the folder of that data set")
    parser.add_argument(
        "--mapping",
        metavar="FILE",
        help="with --data: what became of the taxonomy of its labels, from 'labeltree taxonomy map'",
    )
    add_classifier(parser)
    parser.add_argument(
        "--calibration",
        choices=CALIBRATIONS,
        default="temperature",
        help="what makes scores probabilities: one temperature, a slope and an offset per class, or "
        "a temperature per depth (default: temperature); not applied where it makes the probabilities of "
        "held-out samples worse",
    )
    parser.add_argument(
        "--descent",
        choices=["child", "leaf"],
        default="child",
        help="answers lie on the path to the most probable child at every depth (default), or on that to the "
        "most probable leaf",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of which samples fit the probabilities")
    add_verify(parser)
    options = parser.parse_args(arguments)
    if options.verify and options.data is not None:
        parser.error("--verify is about the run's own samples; leave out --data, or --verify")
    if options.data_path is not None and options.data is None:
        parser.error("--data-path says where the data set of --data lies; name one")
    if options.mapping is not None and options.data is None:
        parser.error("--mapping is about the labels of --data; name some")

    from labeltree.inference.calibrate_run import calibrate_run
    from labeltree.inference.format_answers import calibration_text
    from labeltree.inference.load_run import load_run
    from labeltree.inference.named_samples import open_other
    from labeltree.inference.run_classifiers import other_report
    from labeltree.runs import RunFolder

    source = None
    if options.data is not None:
        run = load_run(options.run, own_data=False)
        source = open_other(run, options.data, data_path=options.data_path, mapping=options.mapping)
    decider = calibrate_run(
        options.run,
        classifier=options.classifier,
        calibration=options.calibration,
        descent=options.descent,
        source=source,
        seed=options.seed,
        verify=options.verify,
    )
    print(calibration_text(decider.rule, decider.record, decider.promise_samples.sentence), end="")
    warning = other_report(options.run, decider.chosen)
    if warning is not None:
        print(warning, file=sys.stderr)
    folder = RunFolder(options.run)
    if (folder.path / "model.onnx").is_file():
        print(
            f"model.onnx and predict.py in '{folder.path}' answer as before; 'labeltree export "
            f"{typed(folder.path)} --out NEW' writes them with this calibration",
            file=sys.stderr,
        )
    print(f"decisions: {folder.decisions}")
