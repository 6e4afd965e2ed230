"""What all tests share: Hypothesis profiles, what saves time, and a machine whose other work does not show.

Hypothesis draws the same examples in every run, or fresh ones, whose seed is printed.
``repeatable`` is the default, so that a run fails by what was changed and never by chance. ``fresh`` is for
``tests/run.sh --slow`` and ``pytest --hypothesis-profile=fresh``: it ends with the seed by which
``--hypothesis-seed=N`` draws the same examples again. Neither counts time.

Bytecode is kept whatever the environment says: without it each of the thousands of processes that tests start would
compile edgetune again. Threads of PyTorch sleep while they wait for each other: where processes outnumber the cores,
most of what they take would be waiting.
"""

import gc
import os
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from edgetune.devices.cpu import CpuLoad, CpuTimes

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

PROFILE, SEED = "--hypothesis-profile", "--hypothesis-seed"
_SHARED = {"database": None, "deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("repeatable", derandomize=True, **_SHARED)
settings.register_profile("fresh", derandomize=False, **_SHARED)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw a seed for a fresh run that was given none, before Hypothesis and the processes of xdist read it."""
    if config.getoption(PROFILE) == "fresh" and config.getoption(SEED) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell the seed of a fresh run."""
    if config.getoption(PROFILE) == "fresh":
        seed = config.getoption(SEED)
        terminalreporter.write_line(f"the same examples again: {PROFILE}=fresh {SEED}={seed}")


@pytest.fixture(scope="module", autouse=True)
def little_to_collect() -> None:
    """Let garbage collections leave out what is there by now: among all that tests import, each takes 0.3 s or more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what other processes do on the machine of the tests; fakes below another root show theirs."""
    read = CpuLoad.read

    def hidden(load: CpuLoad) -> CpuTimes | None:
        return None if load._sysfs.root == Path("/") else read(load)

    monkeypatch.setattr(CpuLoad, "read", hidden)
