"""A lake: ingest, queries, scans, erasure."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from . import _html, _native
from ._parameters import cal_parameters, sql_parameters
from ._progress import ProgressFunction, reported
from .erasure import ErasurePlan
from .errors import UsageError
from .reports import Report, ScanReport
from .results import Result

_Path = str | PathLike[str]
_Names = str | Sequence[str]


def _list(names: _Names | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


class Lake:
    """A lake in a folder, or under an ``s3://``, ``gs://`` or ``az://`` URI.

    >>> import gristmill as gm
    >>> lake = gm.Lake(folder / "lake")
    >>> lake.ingest(folder / "talk.jsonl")["grains_written"]
    3
    >>> lake.sql("SELECT content FROM events WHERE role = $role", role="assistant").to_dicts()
    [{'content': 'good morning'}]

    Queries read the version at which the lake was opened, or that its last own operation or
    :meth:`refresh` moved to. A lake may be used by several threads: operations that change or
    verify it run one after another, queries don't wait for them.

    :param location: Folder or URI.
    :param create: Creates a lake if there is none.
    :param keyring: Keyring file of an encrypted lake. A lake that is created is encrypted with it;
        a lake without encryption is refused.
    :param passphrase: Of the keyring; by default the variable ``GRISTMILL_PASSPHRASE``.
    :param operator: Name for the audit log; by default the user of the process.
    :param memory: Approximate limit in bytes; by default one gibibyte.
    :param threads: Worker threads; by default one per core.
    :param embedder: Embedding model for searches by meaning: ``static``, ``static:FOLDER``,
        ``bert:FOLDER`` or ``command:PROGRAM``.
    """

    def __init__(
        self,
        location: _Path,
        *,
        create: bool = True,
        keyring: _Path | None = None,
        passphrase: str | None = None,
        operator: str | None = None,
        memory: int | None = None,
        threads: int = 0,
        embedder: str | None = None,
    ) -> None:
        names = ("GRISTMILL_OPERATOR", "USER", "LOGNAME", "USERNAME")
        environment = (os.environ[name] for name in names if os.environ.get(name))
        #: Held by what changes the lake by what it has read before.
        self._read_and_change = threading.Lock()
        self._native = _native.NativeLake(
            {
                "location": fspath(location),
                "create": create,
                "keyring": None if keyring is None else fspath(keyring),
                "passphrase": passphrase or os.environ.get("GRISTMILL_PASSPHRASE"),
                "operator": operator or next(environment, None),
                "memory": memory,
                "threads": threads,
                "embedder": embedder,
            }
        )

    @classmethod
    def open(cls, location: _Path, **options: Any) -> Lake:
        """Opens a lake that exists.

        >>> import gristmill as gm
        >>> gm.Lake.open(folder / "none")
        Traceback (most recent call last):
            ...
        gristmill.errors.NoLakeError: no lake at ...
        """
        return cls(location, create=False, **options)

    @property
    def location(self) -> str:
        """Where the lake is."""
        return self._native.location()

    @property
    def version(self) -> int:
        """Version of the table ``grains`` that queries read."""
        return self._native.version()

    def refresh(self) -> None:
        """Moves to the newest version, with what other processes committed."""
        self._native.refresh()

    def ingest(
        self,
        sources: _Path | Iterable[_Path],
        *,
        kind: str | None = None,
        lenient: bool = False,
        again: bool = False,
        retry_refused: bool = False,
        dry_run: bool = False,
        progress: bool | ProgressFunction | None = None,
    ) -> Report:
        """Ingests files, folders, patterns or URIs; returns the report.

        Ctrl-C stops after the current batch; the same call continues there.

        >>> import gristmill as gm
        >>> report = gm.Lake(folder / "lake").ingest(folder / "talk.jsonl")
        >>> report["duplicates"], report["rejected"]
        (0, 0)

        :param kind: Kind of all sources; by default detected from their content.
        :param lenient: Accepts grains that are readable but not canonical, and marks them.
        :param again: Reads sources again that the lake has.
        :param retry_refused: Reads sources again of which something was refused.
        :param dry_run: Checks everything and writes nothing.
        :param progress: ``True`` for a bar, or a function that is called with the progress.
        """
        named = [sources] if isinstance(sources, str | PathLike) else sources
        arguments = {
            "sources": [fspath(source) for source in named],
            "kind": kind,
            "lenient": lenient,
            "again": again,
            "retry_refused": retry_refused,
            "dry_run": dry_run,
        }
        with reported(progress, "ingest") as report:
            return Report(json.loads(self._native.ingest(arguments, report)))

    def sql(
        self, query: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None, **named: Any
    ) -> Result:
        """Plans an SQL query; it runs when its rows are read.

        >>> import gristmill as gm
        >>> lake = gm.Lake(folder / "lake")
        >>> lake.sql("SELECT $who AS who, $n + 1 AS n", who="ada", n=1).to_dicts()
        [{'who': 'ada', 'n': 2}]
        >>> lake.sql("SELECT nothing FROM grains")
        Traceback (most recent call last):
            ...
        gristmill.errors.QueryError: ...

        :param parameters: Values of ``$name`` by name, or of ``$1``, ``$2`` … in order. Names can
            be given as keywords too. A ``datetime`` without a zone is in UTC where it is compared
            with times of the lake; a UUID is a text.
        """
        if named and not (parameters is None or isinstance(parameters, Mapping)):
            raise UsageError("give the parameters in order or by name, not both")
        given: Any = named
        if isinstance(parameters, Mapping):
            given = {**parameters, **named}
        elif isinstance(parameters, Sequence) and not isinstance(parameters, str):
            given = list(parameters)
        elif parameters is not None:
            raise UsageError("parameters are a mapping or a sequence")
        return Result(self._native.sql(query, sql_parameters(given)))

    def cal(
        self,
        statement: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        namespace: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        allow_writes: bool = False,
        now_ms: int | None = None,
        **named: Any,
    ) -> CalAnswer:
        """Runs a CAL statement.

        >>> import gristmill as gm
        >>> lake = gm.Lake(folder / "lake")
        >>> lake.cal("RECALL beliefs WHERE subject = $who | COUNT", who="ada").value
        0

        :param parameters: Values of ``$name`` by name. Names can be given as keywords too. A
            ``datetime`` without a zone is in UTC.
        :param namespace: The only visible namespace.
        :param user: The user that ``MY`` refers to.
        :param agent: The agent that acts for the user.
        :param allow_writes: Allows ADD, SUPERSEDE and REVERT.
        :param now_ms: Time of the query, in milliseconds since 1970.
        """
        arguments = {
            "statement": statement,
            "parameters": cal_parameters({**(parameters or {}), **named}),
            "namespace": namespace,
            "user": user,
            "agent": agent,
            "allow_writes": allow_writes,
            "now_ms": time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        }
        return CalAnswer(json.loads(self._native.cal(arguments)))

    def search(self, text: str, *, k: int = 10, mode: str = "text") -> Result:
        """Returns the ``k`` grains that best match a text, best first.

        >>> import gristmill as gm
        >>> lake = gm.Lake(folder / "lake")
        >>> report = lake.ingest(folder / "talk.jsonl")
        >>> lake.search("hello").to_dicts()[0]["content"]
        'hello'

        :param mode: ``text`` for words, ``vector`` for meaning, ``hybrid`` for both.
        """
        return Result(self._native.search(text, k, mode))

    def scan(
        self, packs: _Path | Iterable[_Path] | None = None, *, since: int | None = None
    ) -> ScanReport:
        """Runs compliance packs: names of shipped ones or files; all shipped ones by default.

        :param since: Scans only grains added after this version.
        """
        named: Iterable[_Path] = [packs] if isinstance(packs, str | PathLike) else packs or ()
        names = [fspath(pack) for pack in named]
        findings, summary = self._native.scan(names, since)
        report = Report(json.loads(summary))
        return ScanReport(self._native, names, since, Result(findings), report)

    def erase(
        self,
        *,
        user: _Names | None = None,
        subject: _Names | None = None,
        did: _Names | None = None,
        session: _Names | None = None,
        addresses: _Names | None = None,
        text_mentions: bool = False,
        derived: bool = False,
        related: bool = False,
        approve: _Names | None = None,
    ) -> ErasurePlan:
        """Plans the erasure of a person's data; changes nothing.

        >>> import gristmill as gm
        >>> lake = gm.Lake(folder / "lake")
        >>> plan = lake.erase(user="u-17")
        >>> plan.table["selected"]["grains"]
        0

        All identifiers are taken as those of one person.

        :param user: User ids.
        :param subject: Names or other identifiers, as they occur in subjects, objects and texts.
        :param did: DIDs.
        :param session: Session or run ids of the person.
        :param addresses: Content addresses of single grains.
        :param text_mentions: Also selects grains whose text mentions the person.
        :param derived: Also selects grains derived from selected ones.
        :param related: Also selects grains that refer to selected ones or share a session.
        :param approve: Approvals that were given, for grains whose policy requires them.
        """
        selector = {
            "user": _list(user),
            "subject": _list(subject),
            "did": _list(did),
            "session": _list(session),
            "addresses": _list(addresses),
            "text_mentions": text_mentions,
            "derived": derived,
            "related": related,
            "approve": _list(approve),
        }
        planned = Report(json.loads(_native.plan_erasure(self._native, selector)))
        return ErasurePlan(self._native, selector, planned)

    def apply(self, operations: Iterable[Mapping[str, Any]]) -> list[Report]:
        """Applies operations of ``gristmill apply``; returns the outcome of each."""
        lines = "\n".join(json.dumps(dict(operation)) for operation in operations)
        return [Report(outcome) for outcome in json.loads(self._native.apply(lines))]

    def verify(
        self, *, sidecars: bool = False, progress: bool | ProgressFunction | None = None
    ) -> Report:
        """Hashes every grain again and compares everything that is derived from it.

        >>> import gristmill as gm
        >>> gm.Lake(folder / "lake").verify()["bad"]
        0

        :param sidecars: Also rebuilds every sidecar index in memory and compares it.
        """
        with reported(progress, "verify") as report:
            return Report(json.loads(self._native.verify(sidecars, report)))

    def describe(self) -> Report:
        """Describes the lake: tables, segments, sources, sidecars."""
        return Report(json.loads(self._native.describe()))

    def __repr__(self) -> str:
        return f"<gristmill.Lake {self.location} version {self.version}>"

    def _repr_html_(self) -> str:
        tables = self.describe()["tables"]
        rows = (
            (name, table["version"], table["rows"], table["files"], table["bytes"])
            for name, table in tables.items()
        )
        return _html.table(["table", "version", "rows", "files", "bytes"], rows, repr(self))


class CalAnswer(dict[str, Any]):
    """The response to a CAL statement, with its members by name.

    >>> import gristmill as gm
    >>> lake = gm.Lake(folder / "lake")
    >>> report = lake.ingest(folder / "talk.jsonl")
    >>> answer = lake.cal("ASSEMBLE context FROM (RECALL events) BUDGET 100 tokens FORMAT text")
    >>> "hello" in answer.text
    True
    """

    @property
    def grains(self) -> list[dict[str, Any]]:
        """The grains of the answer, or the fields that SELECT keeps."""
        return [result["grain"] for result in self.get("results", [])]

    @property
    def text(self) -> str:
        """The assembled context, or the grains in the format of AS; empty without either."""
        context = self.get("formatted_context", {}).get("text")
        return str(context if context is not None else self.get("formatted", ""))

    @property
    def value(self) -> Any:
        """The count, list or description that the statement returns, if any."""
        return self.get("value")

    def _repr_html_(self) -> str:
        columns: dict[str, None] = {}
        for grain in self.grains:
            columns.update(dict.fromkeys(grain))
        names = list(columns)[:12]
        rows = ([grain.get(name) for name in names] for grain in self.grains[:20])
        return _html.table(names, rows, f"{len(self.grains)} of {self.get('total', 0)} grains")
