"""`labeltree calibrate`: fit the decision rule of a trained run and write it to the run folder."""

from __future__ import annotations

import sys

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.errors import typed
from labeltree.options.model_options import CalibrateOptions

SUMMARY = "calibrate a run's probabilities and the thresholds of its answers"
ELSEWHERE = "a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Fit the decision rule requested by the arguments, and print its quality."""
    parser = make_parser(
        "calibrate",
        CalibrateOptions,
        description="Calibrate the answers of a run: probabilities that match frequencies, and scores from "
        "which any coverage can be promised. Writes decisions.json, which 'labeltree predict' reads.",
    )
    options = read_options(CalibrateOptions, parser.parse_args(arguments))

    from labeltree.api import calibrate
    from labeltree.inference.run_classifiers import evaluate_again, other_report
    from labeltree.runs import RunFolder

    decider = calibrate(options)
    print(decider)
    folder = RunFolder(options.run)
    warning = other_report(folder.path, decider.chosen)
    if warning is None and options.data is not None and folder.metrics.is_file():
        warning = (
            f"probabilities and thresholds in {folder.metrics} and the report, such as that of an operating "
            f"point, are of the calibration before; '{evaluate_again(folder)}' makes them anew"
        )
    if warning is not None:
        print(warning, file=sys.stderr)
    if (folder.path / "model.onnx").is_file():
        print(
            f"model.onnx and predict.py in '{folder.path}' answer as before; 'labeltree export "
            f"{typed(folder.path)} --out NEW' writes them with this calibration",
            file=sys.stderr,
        )
    print(f"decisions: {folder.decisions}")
