"""The errors that labeltree raises for people: what is wrong, where, and what to do instead."""

__all__ = ["DataError", "LabeltreeError", "OtherSettingsError", "RecipeError", "RunError", "TaxonomyError"]


class LabeltreeError(Exception):
    """Base of all errors that the command line prints as one sentence."""


class TaxonomyError(LabeltreeError, ValueError):
    """A taxonomy is malformed, or a label does not belong to it."""


class DataError(LabeltreeError, ValueError):
    """A data set is missing, incomplete or unreadable."""


class RecipeError(LabeltreeError, ValueError):
    """A recipe is missing, has an unknown setting or a value of the wrong kind."""


class RunError(LabeltreeError, RuntimeError):
    """A run folder is missing, incomplete or does not fit what is asked of it."""


class OtherSettingsError(RunError):
    """A run folder holds a run with other settings than those that are asked for."""
