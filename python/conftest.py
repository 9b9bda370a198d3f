"""Fixtures: a folder with a transcript, a container and room for a lake."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill import _native
from tests.samples import GRAINS, TALK, write_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_lines(tmp_path / "talk.jsonl", TALK)
    return tmp_path


@pytest.fixture
def lake(tmp_path: Path) -> gm.Lake:
    """A lake with :data:`GRAINS`."""
    made = gm.Lake(tmp_path / "lake", operator="tester")
    lines = [{"grain": grain} for grain in GRAINS]
    report = made.ingest(write_lines(tmp_path / "grains.jsonl", lines))
    assert report["grains_written"] == len(GRAINS), report
    return made


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also in a background job, which ignores it by default."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _doctest_folder(
    request: pytest.FixtureRequest, doctest_namespace: dict[str, Any], tmp_path: Path
) -> None:
    if type(request.node).__name__ != "DoctestItem":
        return
    talk = write_lines(tmp_path / "talk.jsonl", TALK)
    lake = gm.Lake(tmp_path / "scratch")
    lake.ingest(talk)
    words = ["gristmill", "--quiet", "--lake", str(tmp_path / "scratch"), "export"]
    assert _native.run_command([*words, str(tmp_path / "talk.mg")]) == 0
    doctest_namespace["folder"] = tmp_path
