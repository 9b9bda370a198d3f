"""Exceptions of the engine."""

from __future__ import annotations


class GristmillError(Exception):
    """A failure of the engine.

    >>> import gristmill as gm
    >>> try:
    ...     gm.Lake(folder / "lake").cal("RECALL belief")
    ... except gm.GristmillError as error:
    ...     print(error.code)
    CAL-E003
    """

    #: Code of the specification, such as ``ERR_SCHEMA`` or ``CAL-E003``, if there is one.
    code: str | None
    #: What happened, without the code.
    message: str
    #: What to do about it; ``None`` if there is no advice.
    suggestion: str | None

    def __init__(
        self, message: str, code: str | None = None, suggestion: str | None = None
    ) -> None:
        super().__init__(message, code, suggestion)
        self.message = message
        self.code = code
        self.suggestion = suggestion

    def __str__(self) -> str:
        text = self.message
        if self.code and self.code not in text:
            text = f"{self.code}: {text}"
        if self.suggestion and self.suggestion not in text:
            text = f"{text} {self.suggestion}"
        return text


class UsageError(GristmillError):
    """Wrong arguments, or a problem of the environment."""


class NoLakeError(UsageError):
    """There is no lake at the location."""


class DataError(GristmillError):
    """The data has problems: refused input, damage."""


class GrainError(DataError):
    """A grain breaks a rule of the specification; ``code`` names it."""


class QueryError(GristmillError):
    """A query is wrong, or failed while it ran."""


class PolicyError(GristmillError):
    """A policy of a grain forbids the operation."""


class ConflictError(GristmillError):
    """Another writer changed the lake at the same time; running it again helps."""
