"""What all tests share: Hypothesis profiles, what saves time, folders of their own, and signals as a shell leaves them.

Hypothesis draws the same examples in every run, or fresh ones, whose seed is printed.
``repeatable`` is the default, so that a run fails by what was changed and never by chance. ``fresh`` is for
``tests/run.sh --slow`` and ``pytest --hypothesis-profile=fresh``: it ends with the seed by which
``--hypothesis-seed=N`` draws the same examples again. Neither counts time.

Bytecode is kept whatever the environment says: without it each of the thousands of processes that tests start would
compile edgetune again. Threads of PyTorch sleep while they wait for each other: where processes outnumber the cores,
most of what they take would be waiting.

Every test has an empty home, cache, configuration, state and runtime folder, and fails if it leaves a file in the
folders of the user who runs the tests, in the checkout or in the folder of temporary files. Signals have their default
effect also where the tests run in the background, where SIGINT, SIGHUP and SIGQUIT are ignored and inherited.
Processes that are left when the tests end are an error.
"""

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

from edgetune.devices.cpu import CpuLoad, CpuTimes

gc.disable()  # until all is collected: of what is imported for that next to nothing is garbage
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

for _number, _handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

CHECKOUT = Path(__file__).parents[1]
_USERS = Path.home()
_MARK = "EDGETUNE_TEST_PROCESS"
"""A variable that every process has which a process of pytest started; its value is of that process of pytest."""
_FOLDERS = Path(tempfile.mkdtemp(prefix="edgetune-tests-"))
"""The folder of this process of pytest for the homes of its tests."""
_HOME = {
    "HOME": "home",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_RUNTIME_DIR": "run",
}
"""Variables that name a folder of a user, and the folder."""


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables of a user whose folders are in ``folder``, after creating them."""
    for name in _HOME.values():
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "run").chmod(0o700)
    return {variable: str(folder / name) for variable, name in _HOME.items()}


def _contents(folder: Path) -> list[tuple[object, ...]]:
    """Return what is in the folders of a user, with the mode of each."""
    return [(at, sorted(dirs), files, os.stat(at).st_mode) for at, dirs, files in os.walk(folder)]


os.environ.update(
    _environment(_FOLDERS / "between"), MPLCONFIGDIR=str(_FOLDERS / "matplotlib")
)  # looking for fonts takes seconds
os.environ[_MARK] = uuid.uuid4().hex

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


def pytest_collection_finish() -> None:
    """Look for garbage from here on, but not among what there is by now."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Remove the folders of the tests."""
    shutil.rmtree(_FOLDERS, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_tests() -> Iterator[None]:
    """Fail if a process is left that a test has started, after killing it."""
    yield
    give_up_s = time.monotonic() + 10.0
    while (left := _left()) and time.monotonic() < give_up_s:
        time.sleep(0.1)
    described = [" ".join(each.info["cmdline"] or [each.info["name"]]) for each in left]
    for each in left:
        each.kill()
    assert described == [], "processes outlive the tests that started them"


def _left() -> list[psutil.Process]:
    """Return the running processes that have the mark of this process of pytest.

    The one in which multiprocessing keeps books for this process ends with it.
    """
    value, found = os.environ[_MARK], []
    for process in psutil.process_iter(["cmdline", "name", "status"]):
        try:
            ours = process.pid != os.getpid() and process.environ().get(_MARK) == value
        except psutil.Error:  # of another user, or gone
            continue
        books = any("multiprocessing.resource_tracker" in word for word in process.info["cmdline"] or ())
        if ours and not books and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def _strays() -> set[Path]:
    """Return what a test may have left elsewhere: files of edgetune of the user, and entries of the checkout."""
    named = [_USERS / ".cache", _USERS / ".config", _USERS / ".local/state", _USERS / ".local/share"]
    found = {folder / "edgetune" for folder in named if (folder / "edgetune").exists()}
    return found | {Path(entry.path) for entry in os.scandir(CHECKOUT) if not entry.name.startswith(".")}


_BEFORE = _strays()


_UNUSED: list[tuple[dict[str, str], Path, list[tuple[object, ...]]]] = []
"""The folders of the last test if it left them as they were: to remove one takes milliseconds on some disks."""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test folders of a user with nothing in them; fail if it leaves a file elsewhere."""
    if _UNUSED:
        variables, folder, new = _UNUSED.pop()
    else:
        folder = Path(tempfile.mkdtemp(dir=_FOLDERS))
        variables, new = _environment(folder), _contents(folder)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    yield
    if _contents(folder) == new:
        _UNUSED.append((variables, folder, new))
    else:
        shutil.rmtree(folder, ignore_errors=True)
    left = _strays() - _BEFORE
    _BEFORE.update(left)  # it fails one test
    assert left == set(), "the test leaves files outside of its own folders"


_COMMANDS: dict[tuple[object, str], object] = {}


@pytest.fixture
def commands_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build each command of edgetune once, not once for each call in this process."""
    from edgetune.cli.app import LazyGroup

    build = LazyGroup.get_command

    def built(group: LazyGroup, context: object, name: str) -> object:
        key = (type(group), name)
        if key not in _COMMANDS:
            _COMMANDS[key] = build(group, context, name)
        return _COMMANDS[key]

    monkeypatch.setattr(LazyGroup, "get_command", built)


@pytest.fixture
def children_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure and observe networks in this process: a child starts Python, and loads NumPy and ONNX Runtime."""
    from fakes.child_here import run_here

    run_here(monkeypatch)


_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Put the handlers of signals back that a command set which ran in this process."""
    before = {number: signal.getsignal(number) for number in _HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module", autouse=True)
def little_to_collect() -> None:
    """Let garbage collections leave out what is there by now: among all that tests import, each takes 0.3 s or more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what other processes do on the machine of the tests, and root; fakes below another root show theirs."""
    read = CpuLoad.read

    def hidden(load: CpuLoad) -> CpuTimes | None:
        return None if load._sysfs.root == Path("/") else read(load)

    monkeypatch.setattr(CpuLoad, "read", hidden)
    monkeypatch.setattr("edgetune.workflows.device_option._as_root", lambda: False)
