"""How sure a number is: resampling of samples or groups, paired tests, and several runs of a method."""

from labeltree.evaluation.statistics.agreement import Partition, agreement_intervals
from labeltree.evaluation.statistics.bootstrap import Bootstrap, Interval, draw_counts
from labeltree.evaluation.statistics.columns import RatioColumns
from labeltree.evaluation.statistics.holm import holm
from labeltree.evaluation.statistics.mcnemar import mcnemar
from labeltree.evaluation.statistics.permutation import sign_flip_test
from labeltree.evaluation.statistics.resampling import Resampling
from labeltree.evaluation.statistics.seeds import Parts, across_runs
from labeltree.evaluation.statistics.sums import GroupSums, number_groups

__all__ = [
    "Bootstrap",
    "GroupSums",
    "Interval",
    "Partition",
    "Parts",
    "RatioColumns",
    "Resampling",
    "across_runs",
    "agreement_intervals",
    "draw_counts",
    "holm",
    "mcnemar",
    "number_groups",
    "sign_flip_test",
]
