"""Progress of long operations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Progress(NamedTuple):
    """How far an operation is. The counts are approximate until it ends."""

    #: Bytes that were processed or skipped.
    bytes: int
    #: Bytes of all sources, as far as their sizes are known.
    total_bytes: int
    #: Grains found.
    grains: int
    #: Rejected grains.
    rejected: int


#: Called about twenty times a second, on the calling thread. An exception stops the operation.
ProgressFunction = Callable[[Progress], object]


@contextmanager
def reported(
    progress: bool | ProgressFunction | None, work: str
) -> Iterator[Callable[[int, int, int, int], object] | None]:
    """Yields the function that the engine calls; ``True`` shows a bar until the work ends."""
    if not progress:
        yield None
        return
    bar = _Bar(work) if progress is True else None
    shown = progress if bar is None else bar.show

    def call(bytes: int, total: int, grains: int, rejected: int) -> None:
        assert callable(shown)
        shown(Progress(bytes, total, grains, rejected))

    try:
        yield call
    finally:
        if bar is not None:
            bar.close()


class _Bar:
    """A bar of tqdm, or a line on standard error without tqdm."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._bar: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(desc=work, unit="B", unit_scale=True)

    def show(self, now: Progress) -> None:
        whole = max(now.total_bytes, now.bytes, 1)
        if self._bar is not None:
            self._bar.total = whole
            self._bar.update(now.bytes - self._bar.n)
            return
        text = f"\r{self._work}: {now.bytes * 100 // whole:3d} %, {now.grains:,} grains"
        sys.stderr.write(text)
        sys.stderr.flush()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        else:
            sys.stderr.write("\n")
