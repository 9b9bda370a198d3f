"""Batch engine for the memory of AI agents: verify, index, query and erase grains in bulk.

>>> import gristmill as gm
>>> lake = gm.Lake(folder / "lake")
>>> report = lake.ingest(folder / "talk.jsonl")
>>> report["rejected"]
0
>>> lake.sql("SELECT type, count(*) AS n FROM grains GROUP BY type").to_dicts()
[{'type': 'event', 'n': 3}]

Results hand their rows to pyarrow, Polars, pandas and DuckDB through the Arrow C stream interface;
none of these is needed to install or import this package.
"""

from ._native import __version__
from ._progress import Progress
from .codec import content_address, decode, encode
from .erasure import Erasure, ErasurePlan, verify_certificate
from .errors import (
    ConflictError,
    DataError,
    GrainError,
    GristmillError,
    NoLakeError,
    PolicyError,
    QueryError,
    UsageError,
)
from .files import read_mg, read_transcript
from .lake import CalAnswer, Lake
from .reports import Report, ScanReport
from .results import Result

__all__ = [
    "CalAnswer",
    "ConflictError",
    "DataError",
    "Erasure",
    "ErasurePlan",
    "GrainError",
    "GristmillError",
    "Lake",
    "NoLakeError",
    "PolicyError",
    "Progress",
    "QueryError",
    "Report",
    "Result",
    "ScanReport",
    "UsageError",
    "__version__",
    "content_address",
    "decode",
    "encode",
    "read_mg",
    "read_transcript",
    "verify_certificate",
]
