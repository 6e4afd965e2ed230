"""Under sudo a hostile model and a hostile folder make root write nothing: every file is opened as the caller.

The interpreter of the tests may lie in a folder that only root can enter. Then the process gets a mount namespace in
which that folder can be entered, and nothing else of it is there than what the interpreter needs.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from edgetune.testing.fake_board import make_board

REPOSITORY = Path(__file__).parents[2]
USER = pwd.getpwnam("nobody").pw_uid
"""A user with an account and a group of the same number."""

AS_USER = {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}

_SHOW = """
hidden=$1; shift
while [ "$1" != -- ]; do
    mkdir -p "$hidden/$3"; mount --bind "$1/$2" "$hidden/$3"
    mount -t tmpfs -o mode=755 tmpfs "$1"; mkdir "$1/$2"; mount --bind "$hidden/$3" "$1/$2"
    shift 3
done
shift
"""


def needed_paths() -> list[Path]:
    """Return what an interpreter like this one reads."""
    found = [sys.executable, sys.prefix, sys.base_prefix, REPOSITORY, *(entry for entry in sys.path if entry)]
    paths = [Path(entry) for entry in found if Path(entry).exists()]
    return [*paths, *(path.resolve() for path in paths)]


def closed_folders() -> dict[Path, str]:
    """Return the folders on the way that only their owner can enter, each with the name that is needed in it."""
    closed = {}
    for path in needed_paths():
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & 0o001:
                closed[folder] = path.relative_to(folder).parts[0]
                break
    return closed


def started_by_root(command: Sequence[str], private: Path, first: str = "") -> list[str]:
    """Return the command line that runs ``command`` in a mount namespace of its own.

    Args:
        command: What to run there.
        private: A folder for what is hidden meanwhile.
        first: Lines of a shell to run there first.
    """
    words = [word for number, (folder, name) in enumerate(closed_folders().items()) for word in (folder, name, number)]
    return [
        "unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{_SHOW}{first}\nexec "$@"', "sh",
        str(private), *map(str, words), "--", *command,
    ]  # fmt: skip


def run_by_root(
    command: Sequence[str],
    world: Path,
    *,
    environment: Mapping[str, str] = AS_USER,
    first: str = "",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as root with the variables by which sudo names the caller."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SUDO_", "XDG_", "PYTHON"))}
    return subprocess.run(
        started_by_root(command, world / "hidden", first), cwd=cwd or world / "user", text=True, capture_output=True,
        env={**clean, "PYTHONPATH": str(REPOSITORY), **environment}, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def make_world(folder: Path) -> Path:
    """Make a folder of the user, ``user``, and one of root with a secret, ``root/secret``; skip where that is not so.

    Args:
        folder: A new folder that everybody can enter.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can start edgetune for another user")
    folder.chmod(0o755)
    for name in ("user", "root", "hidden"):
        (folder / name).mkdir()
    os.chown(folder / "user", USER, USER)
    (folder / "root/secret").write_text("precious")
    (folder / "root/secret").chmod(0o600)
    started = run_by_root(
        ["setpriv", "--reuid", str(USER), "--clear-groups", sys.executable, "-c", "import edgetune"], folder
    )
    if started.returncode != 0:
        pytest.skip(f"no user but root can start the interpreter of the tests here: {started.stderr.strip()[-200:]}")
    return folder


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sudo keeps root for single steps on Linux only")

HOSTILE = """
import ctypes, json, os, sys
SECRET = {secret!r}
NAMES = {names!r}

def plant():
    for name in NAMES:
        if os.path.lexists(name):
            os.unlink(name)
        os.symlink(SECRET, name)

def attempt(step):
    try:
        return str(step())
    except OSError as error:
        return "refused"

def attack():
    parent, library = os.getppid(), ctypes.CDLL(None, use_errno=True)
    return {{
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "seteuid": attempt(lambda: os.seteuid(0)),
        "setuid": attempt(lambda: os.setresuid(0, 0, 0)),
        "attach": library.ptrace(16, parent, 0, 0),
        "memory": attempt(lambda: os.open(f"/proc/{{parent}}/mem", os.O_RDWR)),
        "descriptors": attempt(lambda: os.listdir(f"/proc/{{parent}}/fd")),
        "environment": attempt(lambda: os.open(f"/proc/{{parent}}/environ", os.O_RDONLY)),
        "own": sorted(os.readlink(f"/proc/self/fd/{{fd}}").split(":")[0] for fd in os.listdir("/proc/self/fd")
                      if os.path.lexists(f"/proc/self/fd/{{fd}}")),
        "variables": sorted(name for name in os.environ if name.startswith(("SUDO", "PKEXEC", "DOAS"))),
    }}

plant()
def make(batch):
    json.dump(attack(), open("report.json", "w"))
    plant()
    return plant
"""

PLAIN = "def make(batch):\n    return lambda: None\n"

DRIVER = """
import contextlib, io, json, os, sys
sys.path.insert(0, os.getcwd())  # as `python -m edgetune` has it
from edgetune.cli.main import main
secret, ended, changes = sys.argv[1], {}, {0: set()}

def look(event, arguments):
    opened = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if opened or event in ("os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.chmod", "os.chown"):
        changes.setdefault(os.geteuid(), set()).add(f"{event} {arguments[0]}")

sys.addaudithook(look)
os.environ["PYTHONPATH"] = f"{sys.argv[2]}:{os.environ['PYTHONPATH']}"
for line in json.load(sys.stdin):
    *words, planted = line
    for name in planted:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        os.symlink(secret, name)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(words)
        except SystemExit as end:
            ended[" ".join(words)] = (int(end.code or 0), errors.getvalue())
print(json.dumps([ended, {user: sorted(each) for user, each in changes.items()}]))
"""

CUSTOM = "import os\nwith open({file!r}, 'a') as file:\n    print(os.geteuid(), file=file)\n"

TWIN = ("--device", "twin:orin-agx", "-q")


def measure(*words, model="plain.py"):
    return ("profile", model, "--task", "train", "--device", "host", "-b", "1", "-q", *words)


def simulate(*words):
    return ("profile", "zoo:squeezenet", *TWIN, "--modes", "MAXN", *words)


PAIR = (
    "search", "infer.parquet", "train.parquet", "--kind", "train+infer", "--power-budget", "60W",
    "--latency-budget", "500ms", "--arrival-rate", "10/s", "-q",
)  # fmt: skip
EXAMPLES = Path(__file__).parents[2] / "examples"
PREPARED = [
    (*simulate("--task", "infer", "-b", "1,4", "-o", "infer.parquet"), []),
    (*simulate("--task", "train", "-b", "16", "-o", "train.parquet"), []),
    (*PAIR, "-o", "pair.yaml", []),
    (*measure("-o", "measured.parquet"), []),
]
ATTACKED = {
    "a link in place of the output": (*simulate("--task", "train", "-b", "16", "-o", "1.parquet"), ["1.parquet"]),
    "the journal of --fresh": (*measure("--fresh", "-o", "2.parquet"), [".2.parquet.journal"]),
    "a folder of root": (*measure("-o", "../root/3.parquet"), []),
    "a plan": (*PAIR, "-o", "4.yaml", ["4.yaml"]),
    "steps of a search": (*PAIR, "-o", "5.yaml", "--trace", "5.parquet", ["5.parquet"]),
    "a roofline": ("roofline", "zoo:squeezenet", *TWIN, "-b", "1", "-o", "6.yaml", ["6.yaml"]),
    "a run of interleave": ("interleave", "pair.yaml", *TWIN, "--duration", "2s", "-o", "8.parquet", ["8.parquet"]),
    "a timeline of schedule run": (
        "schedule", "run", "memory-jobs.yaml", "--simulate", "--policy", "linear", "-q", "-o", "10.parquet",
        ["10.parquet"],
    ),
    "a figure": ("show", "infer.parquet", "--plot", "7.svg", ["7.svg"]),
    "a figure of roofline": ("roofline", "zoo:squeezenet", *TWIN, "-b", "1", "--plot", "8.svg", ["8.svg"]),
    "a figure of interleave": (
        "interleave", "pair.yaml", *TWIN, "--duration", "2s", "-o", "9.parquet", "--plot", "9.svg", ["9.svg"]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world():
    with tempfile.TemporaryDirectory(prefix="edgetune-test-") as folder:
        yield make_world(Path(folder))


@pytest.fixture(scope="module")
def attacked(ran):
    return ran[0]


@pytest.fixture(scope="module")
def changes(ran):
    return ran[1]


@pytest.fixture(scope="module")
def ran(world):
    """Return how each command ended, all run in one process for the sake of time, and what changed files as whom."""
    (world / "user/plain.py").write_text(PLAIN)
    for name in ("memory-jobs.yaml", "memory-costs.json"):
        shutil.copy(EXAMPLES / name, world / "user")
    (world / "user/pyarrow.py").write_text("raise SystemExit(77)\n")
    for name in ("sitecustomize", "usercustomize"):  # which Python runs at its start
        (world / "path").mkdir(exist_ok=True)
        (world / f"path/{name}.py").write_text(CUSTOM.format(file=str(world / "user/started")))
    driver = world / "driver.py"
    driver.write_text(DRIVER)
    lines = world / "lines.json"
    lines.write_text(json.dumps([*PREPARED, *ATTACKED.values()]))
    done = run_by_root(
        [
            "sh",
            "-c",
            'exec "$@" < ../lines.json',
            "sh",
            sys.executable,
            "../driver.py",
            f"{world}/root/secret",
            f"{world}/path",
        ],
        world,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def secret_of(world):
    return (world / "root/secret").read_text(encoding="utf-8")


def test_the_files_of_the_attacks_exist_and_belong_to_the_user(attacked, world):
    """It was made though a module of the user's folder would have ended edgetune, which imports much while it runs."""
    for *words, _ in PREPARED:
        assert attacked[" ".join(words)][0] == 0
    for name in ("infer.parquet", "pair.yaml"):
        found = (world / "user" / name).stat()
        assert (found.st_uid, found.st_gid) == (USER, USER)


@pytest.mark.parametrize("what", ATTACKED)
def test_a_planted_link_makes_root_write_nothing(attacked, world, what):
    code, errors = attacked[" ".join(ATTACKED[what][:-1])]
    errors = [line for line in errors.splitlines() if not line.startswith("SIMULATED")]
    assert secret_of(world) == "precious"
    assert code == 2, errors
    assert errors[-2].startswith("error: ")
    assert errors[-1].startswith("hint: ")
    refused = "is a link, through which no journal" if what == "the journal of --fresh" else "Permission denied"
    assert refused in errors[-2] or refused in errors[-1], errors
    if refused == "Permission denied":
        assert errors[-1].endswith("under sudo edgetune reads and writes files as nobody")


def test_nothing_is_opened_for_writing_as_root(changes):
    """Python tells a hook of every file that it opens, from before the first command on."""
    assert changes.pop("0") == ["open /dev/null"]
    assert any("infer.parquet" in change for change in changes[str(USER)]), "the hook hears of changes"


def test_modules_of_the_caller_run_as_the_caller_alone(attacked, world):
    """They run in workers, by ``PYTHONPATH``, and not in the process of root that was started beside."""
    assert attacked
    assert set((world / "user/started").read_text(encoding="utf-8").split()) == {str(USER)}


@pytest.mark.parametrize("closed", [False, True], ids=["readable folder", "closed folder"])
def test_a_model_that_plants_links_while_it_runs_gains_nothing(world, closed):
    for left in (*(world / "user").glob("out*.parquet"), *(world / "user").glob(".out.parquet.*")):
        left.unlink()
    (world / "root").chmod(0o700 if closed else 0o755)
    names = ("out.parquet", ".out.parquet.partial", "out.json")
    (world / "user/model.py").write_text(HOSTILE.format(secret=str(world / "root/secret"), names=names))
    ended = run_by_root([sys.executable, "-m", "edgetune", *measure("-o", "out.parquet", model="model.py")], world)
    assert secret_of(world) == "precious"
    assert ended.returncode == 0, ended.stderr
    assert "out.parquet was written by another program since this command began" in ended.stderr
    written = world / "user/out-2.parquet"
    assert (written.read_bytes()[:4], written.stat().st_uid) == (b"PAR1", USER)
    report = json.loads((world / "user/report.json").read_text(encoding="utf-8"))
    assert report["ids"] == [[USER] * 3, [USER] * 3, [USER]]
    for way in ("seteuid", "setuid", "memory", "descriptors", "environment"):
        assert report[way] == "refused"
    assert report["attach"] == -1
    assert report["variables"] == []
    assert {name for name in report["own"] if name.startswith("/")} <= {
        "/dev/null", *(name for name in report["own"] if "(deleted)" in name or name.startswith("/proc/"))
    }  # fmt: skip


def test_a_model_that_replaces_the_journal_by_a_link_ends_the_sweep(world):
    names = (".away.parquet.journal",)
    (world / "user/model.py").write_text(HOSTILE.format(secret=str(world / "root/secret"), names=names))
    ended = run_by_root([sys.executable, "-m", "edgetune", *measure("-o", "away.parquet", model="model.py")], world)
    assert secret_of(world) == "precious"
    assert ended.returncode == 2, ended.stderr
    assert "was moved, replaced or made read-only" in ended.stderr


LOOK = """
import os, sys
from edgetune.cli import main, app
from edgetune.processes import privilege
seen = []
app.set_limits = lambda words: seen.append([*os.getresuid(), privilege.has_helper()])
sys.stdout = open(os.devnull, "w")
for words in (["doctor", "--help"], ["show", "--help"]):
    try:
        main.main(words)
    except SystemExit:
        pass
print(seen, file=sys.stderr)
"""


def test_a_command_that_only_reads_gives_root_up_before_it_reads(world):
    (world / "look.py").write_text(LOOK)
    ended = run_by_root([sys.executable, "../look.py"], world)
    assert ended.stderr.splitlines()[-1] == str([[*[USER] * 3, True], [*[USER] * 3, False]])


def test_root_by_itself_is_as_before(world):
    (world / "root/plain.py").write_text(PLAIN)
    command = [sys.executable, "-m", "edgetune", *measure("-o", "own.parquet")]
    ended = run_by_root(command, world, environment={}, cwd=world / "root")
    assert ended.returncode == 0, ended.stderr
    assert (world / "root/own.parquet").stat().st_uid == 0


def test_the_command_of_device_set_runs_as_the_caller(world):
    board = world / "user/board"
    make_board(board, "jetson-nano")
    for path in (board, *board.rglob("*")):
        os.chown(path, USER, USER, follow_symlinks=False)
    command = [sys.executable, "-m", "edgetune", "device", "set", "jetson", "cpu_cores=1", "--root", str(board)]
    ended = run_by_root([*command, "--", "grep", "Uid", "/proc/self/status"], world)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[-5:] == ["Uid:", *[str(USER)] * 4]


PS = """
import json, os, psutil

def look():
    parent = psutil.Process(os.getppid())
    family = [parent, *parent.children(recursive=True)]
    of_root = [each.cmdline() for each in family if 0 in (*each.uids(), *each.gids())]
    json.dump(sorted(words[words.index("-m") + 1] for words in of_root), open("root.json", "w"))

def make(batch):
    return look
"""
STEPS = """
import json, os, sys, time
from pathlib import Path
from edgetune.cli.main import run
from edgetune.processes.privilege import act_as_caller

os.environ["PYTHONPATH"] = sys.argv[1]
act_as_caller()
from edgetune.artifacts.mode import Mode
from edgetune.workflows.device.doctor import examine
from edgetune.devices.guardian.lock import Exclusive
from edgetune.devices.host import open_host

LIMITS = [Path("/sys/devices/system/cpu/cpufreq/policy0") / f"scaling_{end}_freq" for end in ("min", "max")]

def limits():
    return [path.read_text(encoding="utf-8").strip() for path in LIMITS]

def refused(path, flags):
    try:
        os.close(os.open(path, flags))
    except PermissionError:
        return True

host = open_host()
found = {"power": host.power.source, "knobs": sorted(host.modes.space.knobs), "found": limits()}
found["energy"] = refused("/sys/class/powercap/intel-rapl:0/energy_uj", os.O_RDONLY)
found["clock"] = [refused(path, os.O_WRONLY) for path in LIMITS]
with host.power.record() as recording:
    time.sleep(0.12)
host.modes.apply(Mode(cpu_cores=1, cpu_mhz=2000))
found["set"] = limits()
found["journal"] = refused("/var/lib/edgetune", os.O_RDONLY)
host.modes.restore()
found["restored"] = limits()
sweep = "profile ps.py --task train --device host --modes cpu_cores=1,cpu_mhz=2000 -b 1 --minibatches 3 -q -o p.csv"
found["swept"] = [run(sweep.split()), limits(), json.load(open("root.json"))]
with Exclusive("nvidia:0")():
    locks = [Path("/run/edgetune"), *Path("/run/edgetune").iterdir()]
    found["locks"] = {str(path): [path.stat().st_uid, oct(path.stat().st_mode & 0o777)] for path in locks}
report = examine(Path("/"))
found["doctor"] = {row["what"]: row["state"] for row in report["permissions"]}
found["guardian"] = report["guardian"]["state"]
found["identity"] = os.getresuid()
print(json.dumps(found))
"""

KERNEL = {
    "class/powercap/intel-rapl:0/name": "package-0",
    "class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850",
    "devices/system/cpu/cpufreq/policy0/scaling_available_frequencies": "1000000 2000000 3000000",
    "devices/system/cpu/cpufreq/policy0/scaling_min_freq": "1000000",
    "devices/system/cpu/cpufreq/policy0/scaling_max_freq": "3000000",
    "devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "3000000",
}


def test_each_step_of_root_works_under_sudo_and_no_other_process_of_a_sweep_is_root(world):
    """The kernel's files are plain ones here, bound over /sys in a mount namespace."""
    for name, text in {**KERNEL, "class/powercap/intel-rapl:0/energy_uj": "5000000"}.items():
        path = world / "root/sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (world / "root/sys/class/powercap/intel-rapl:0/energy_uj").chmod(0o400)
    (world / "steps.py").write_text(STEPS)
    (world / "user/ps.py").write_text(PS)
    first = f"mount --bind {world}/root/sys /sys; mount -t tmpfs tmpfs /var/lib; mount -t tmpfs -o mode=755 tmpfs /run"
    (world / "path").mkdir(exist_ok=True)
    (world / "path/sitecustomize.py").write_text(CUSTOM.format(file=str(world / "root/started")))
    ended = run_by_root([sys.executable, "../steps.py", f"{world}/path"], world, first=first)
    assert ended.returncode == 0, ended.stderr
    assert not (world / "root/started").exists()
    assert json.loads(ended.stdout) == {
        "power": "rapl:package-0",
        "knobs": ["cpu_cores", "cpu_mhz"],
        "found": ["1000000", "3000000"],
        "energy": True,
        "clock": [True, True],
        "set": ["2000000", "2000000"],
        "journal": True,
        "restored": ["1000000", "3000000"],
        "swept": [0, ["1000000", "3000000"], ["edgetune.devices.guardian", "edgetune.devices.guardian.steps"]],
        "locks": {
            "/run/edgetune": [0, "0o755"],
            "/run/edgetune/host.lock": [0, "0o644"],
            "/run/edgetune/nvidia-0.lock": [0, "0o644"],
        },
        "doctor": {"CPU power (RAPL)": "yes", "CPU clocks (cpufreq)": "yes"},
        "guardian": "yes",
        "identity": [USER] * 3,
    }
