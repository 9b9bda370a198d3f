"""Reports of operations."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _html
from .results import Result

if TYPE_CHECKING:
    from ._native import NativeLake


class Report(dict[str, Any]):
    """A report of the engine: the members that ``--format json`` prints, by name."""

    def _repr_html_(self) -> str:
        return _html.members(self)


class ScanReport:
    """The findings of a scan.

    >>> import gristmill as gm
    >>> lake = gm.Lake(folder / "lake")
    >>> report = lake.scan(packs=["gdpr"])
    >>> report.findings.columns[:2]
    ['rule', 'severity']
    >>> report.summary["findings"]
    0
    """

    #: One row per finding: rule, severity, norm, content_address, message, evidence (JSON).
    findings: Result
    #: Counts by rule and severity.
    summary: Report

    def __init__(
        self,
        lake: NativeLake,
        packs: list[str],
        since: int | None,
        findings: Result,
        summary: Report,
    ) -> None:
        self._lake = lake
        self._packs = packs
        self._since = since
        self.findings = findings
        self.summary = summary

    def html(self, path: str | PathLike[str]) -> None:
        """Scans again and writes a self-contained page."""
        self._write(path, "html")

    def sarif(self, path: str | PathLike[str]) -> None:
        """Scans again and writes a SARIF 2.1.0 file."""
        self._write(path, "sarif")

    def _write(self, path: str | PathLike[str], form: str) -> None:
        Path(path).write_bytes(self._lake.scan_report(self._packs, self._since, form))

    def __repr__(self) -> str:
        return f"<gristmill.ScanReport {self.summary['findings']} findings>"

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()
