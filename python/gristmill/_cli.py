"""The command line, as the script ``gristmill`` and as ``python -m gristmill``."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Runs the command line of the process; returns its exit code."""
    # Python only notes an interrupt; the engine has its own handler where it needs one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command(["gristmill", *sys.argv[1:]])
