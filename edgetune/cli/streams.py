"""Standard streams that were closed when the program began (``>&-``): held open, so that no file takes their number.

Otherwise the next file to be opened, a journal perhaps, would be number 1, and receive what some library prints.
"""

from __future__ import annotations

import os
import sys

_STREAMS = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Standard output is opened for reading: writing to it fails, for an answer that cannot be given is a failure."""


def hold_closed_streams() -> None:
    """Occupy closed standard streams: output refuses what is written, errors are swallowed, input stays ``None``."""
    for descriptor, flags in _STREAMS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 -- for as long as the program lasts
    if sys.stderr is None:  # print(file=None) would go to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def abandon_stdout() -> None:
    """Send what is still to be written to standard output nowhere, so that ending the program does not fail of it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
