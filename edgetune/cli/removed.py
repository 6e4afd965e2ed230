"""Commands and options that earlier versions had, each with what replaces it."""

from __future__ import annotations

from edgetune.errors import InputError

REPLACED: dict[str, str] = {
    "roofline --view": "--plot FILE draws the roofs of time and energy; the printed table has each batch size and mode",
    "schedule run --chrome-trace": "--plot FILE.html draws the run as a page that zooms",
    "schedule generate": "edgetune schedule run --simulate simulates a file of jobs, see edgetune help memory",
    "schedule robustness": "edgetune schedule run --simulate --costs FILE compares policies",
    "schedule graph": "edgetune schedule run --simulate --plot FILE draws the tasks of a run",
    "search sensitivity": "compare plans of edgetune search TABLE --kind accuracy --convergence FILE",
    "schedule kernels run --launcher": "leave the option out: the loop in Python launches",
    "schedule kernels bench --launcher": "leave the option out: the loop in Python launches",
    "schedule kernels energy": "compare policies with edgetune schedule kernels simulate",
}
"""The words after ``edgetune`` of a removed command, or of a command and a removed option, and the hint for them."""


def removed(command_path: str, word: str) -> InputError | None:
    """Return the error for a removed command or option; ``None`` for words that edgetune never knew.

    Args:
        command_path: The words of the command that ``word`` was given to, e.g. ``"edgetune schedule"``.
        word: The command or option, e.g. ``"graph"`` or ``"--govern"``.
    """
    words = " ".join((*command_path.split()[1:], word))
    if (hint := REPLACED.get(words)) is None:
        return None
    what = "the option" if word.startswith("-") else "the command"
    return InputError(f"{what} '{words}' was removed", hint)
