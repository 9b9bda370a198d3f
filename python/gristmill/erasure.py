"""Erasure of a person's data."""

from __future__ import annotations

import json
import os
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _html, _native
from .reports import Report

if TYPE_CHECKING:
    from ._native import NativeLake


class ErasurePlan:
    """What an erasure would erase, and what it would keep and why. Nothing was changed yet."""

    #: The plan, as ``gristmill erase --format json`` prints it.
    table: Report

    def __init__(self, lake: NativeLake, selector: dict[str, Any], planned: Report) -> None:
        self._lake = lake
        self._selector = selector
        self.table = planned

    def execute(
        self,
        *,
        keyring: str | PathLike[str],
        passphrase: str | None = None,
        exclusive: bool = False,
        destroy_keys: bool = False,
        signing_key: str = "erasure",
        reference: str | None = None,
        legal_ground: str | None = None,
        operator: str | None = None,
    ) -> Erasure:
        """Erases, and returns the signed certificate.

        The lake is searched again, so data that came in since the plan is erased too.

        :param keyring: Keyring file with the key ``signing_key``; ``gristmill keys generate``
            makes one.
        :param passphrase: Of the keyring; by default the variable ``GRISTMILL_PASSPHRASE``.
        :param exclusive: Asserts that no other process writes to the lake, so that files with the
            data are removed at once.
        :param destroy_keys: Destroys the person's keys in an encrypted lake.
        :param reference: Reference of the request, for the certificate.
        :param legal_ground: Legal ground, for the certificate.
        :param operator: Operator of the lake, for the certificate.
        """
        report, certificate = _native.erase_person(
            self._lake,
            self._selector,
            {
                "keyring": fspath(keyring),
                "passphrase": passphrase or os.environ.get("GRISTMILL_PASSPHRASE"),
                "signing_key": signing_key,
                "exclusive": exclusive,
                "destroy_keys": destroy_keys,
                "reference": reference,
                "legal_ground": legal_ground,
                "operator": operator,
            },
        )
        return Erasure(Report(json.loads(report)), certificate)

    def __repr__(self) -> str:
        return f"<gristmill.ErasurePlan {self.table['selected']}>"

    def _repr_html_(self) -> str:
        return _html.members(self.table, "What would be erased, and what would be kept")


class Erasure:
    """An erasure that was carried out."""

    #: The report, as ``gristmill erase --execute --format json`` prints it.
    report: Report
    #: The signed certificate.
    certificate: bytes

    def __init__(self, report: Report, certificate: bytes) -> None:
        self.report = report
        self.certificate = certificate

    @property
    def proven(self) -> bool:
        """Whether all proofs of absence hold."""
        return bool(self.report["proven"])

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the certificate to a file."""
        Path(path).write_bytes(self.certificate)

    def __repr__(self) -> str:
        return f"<gristmill.Erasure {self.report['id']} proven={self.proven}>"

    def _repr_html_(self) -> str:
        return _html.members(self.report, "Erasure")


def verify_certificate(
    certificate: Erasure | bytes | str | PathLike[str],
    *,
    signer: str | None = None,
    leaves: bytes | None = None,
) -> Report:
    """Verifies a signed certificate, given as bytes, as a file or as the erasure itself.

    >>> import gristmill as gm
    >>> gm.verify_certificate(b"no certificate")["valid"]
    False

    :param signer: DID of the required signer.
    :param leaves: Content of the certificate's file of leaves.
    """
    if isinstance(certificate, Erasure):
        certificate = certificate.certificate
    elif not isinstance(certificate, bytes):
        certificate = Path(certificate).read_bytes()
    return Report(json.loads(_native.verify_certificate(certificate, signer, leaves)))
