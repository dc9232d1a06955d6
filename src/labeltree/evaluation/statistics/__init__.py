"""Statistical uncertainty: bootstrap over samples or groups, paired tests, and several runs of a method."""

from labeltree.evaluation.statistics.bootstrap import (
    Bootstrap,
    GroupSums,
    Interval,
    Resampling,
    draw_counts,
)
from labeltree.evaluation.statistics.interval_ends import FEWEST_GROUPS, worst_ends
from labeltree.evaluation.statistics.joint_statistics import (
    JointJackknife,
    Partition,
    Statistic,
    agreement_intervals,
    mean_of_parts,
)
from labeltree.evaluation.statistics.paired_tests import Parts, across_runs, holm, mcnemar, sign_flip_test
from labeltree.evaluation.statistics.ratio_intervals import RatioColumns

__all__ = [
    "FEWEST_GROUPS",
    "Bootstrap",
    "GroupSums",
    "Interval",
    "JointJackknife",
    "Partition",
    "Parts",
    "RatioColumns",
    "Resampling",
    "Statistic",
    "across_runs",
    "agreement_intervals",
    "draw_counts",
    "holm",
    "mcnemar",
    "mean_of_parts",
    "sign_flip_test",
    "worst_ends",
]
