"""Plug-ins by name: edgetune's own, and those of a package that is installed beside it and taken away again."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from edgetune import plugins
from edgetune.artifacts.io import read
from edgetune.artifacts.profile import Profile
from edgetune.cli.main import run
from edgetune.devices.device import DEVICES, list_devices, open_device
from edgetune.errors import InputError
from edgetune.plugins import Registry
from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.workflows.report.report import write_page
from edgetune.workflows.report.sections import SECTIONS
from edgetune.workloads.resolve import KINDS, resolve

POINTS = """
    from edgetune.devices.device import open_device
    from edgetune.devices.device import DeviceKind, Listing
    from edgetune.stages.interleave.policies.policy import Native
    from edgetune.stages.search.strategies.baselines import Random
    from edgetune.workloads.workload import Workload, WorkloadKind


    class Dice(Random):
        name = "dice"


    class Polite(Native):
        name = "polite"


    BOARD = DeviceKind(
        "toy:0", False, lambda: [Listing("toy:0", "a toy")], lambda name, seed: open_device("twin:orin-agx", seed=seed)
    )


    def load(reference):
        return Workload(reference, reference.removeprefix("nap:"), "nap", None, "0" * 64)


    def open_step(workload, task, batch_size, options):
        return lambda: sum(range(10_000 * batch_size))


    NAP = WorkloadKind(load, ("nap:",), task="infer", runtime="toy_plugins")


    def counted(artifact, out):
        out.note(f"{len(artifact.rows)} points")
"""
OWN = {
    "edgetune.strategies": {"dice": "Dice"},
    "edgetune.policies": {"interleave.polite": "Polite"},
    "edgetune.devices": {"toy": "BOARD"},
    "edgetune.workloads": {"nap": "NAP"},
    "edgetune.reports": {"profile.counted": "counted"},
}


class Installed:
    """Packages in a folder of the path, each a module and its metadata, as pip would leave them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        folder.mkdir()
        monkeypatch.syspath_prepend(folder)

        monkeypatch.setenv("PYTHONPATH", str(folder))

    def add(self, groups: dict[str, dict[str, str]], *, code: str = POINTS, package: str = "toy-plugins") -> None:
        module = package.replace("-", "_")
        (self.folder / f"{module}.py").write_text(dedent(code))
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = []
        for group, points in groups.items():
            lines += [f"[{group}]", *(f"{name} = {module}:{attribute}" for name, attribute in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        self.monkeypatch.delitem(sys.modules, module, raising=False)
        plugins._entry_points_on.cache_clear()  # which a process looks for once

    def take_away(self) -> None:
        sys.path.remove(str(self.folder))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    yield Installed(tmp_path / "site", monkeypatch)
    for name in ("toy_plugins", "other_plugins"):
        sys.modules.pop(name, None)


def test_a_package_adds_one_of_each_and_takes_them_away(installed):
    before = set(STRATEGIES), set(POLICIES), set(DEVICES), set(KINDS), set(SECTIONS)
    installed.add(OWN)
    assert (set(STRATEGIES), set(POLICIES)) == (before[0] | {"dice"}, before[1] | {"polite"})
    assert (set(KINDS), set(SECTIONS)) == (before[3] | {"nap"}, before[4] | {"profile.counted"})
    assert "toy_plugins" not in sys.modules, "names are listed without importing what they name"
    assert STRATEGIES.find("dice").name == "dice"
    assert POLICIES.find("polite").name == "polite"
    assert open_device("toy:0").name == "twin:orin-agx"
    assert "toy:0" in [listing.name for listing in list_devices()]
    assert resolve("nap:deep").name == "deep"
    installed.take_away()
    assert (set(STRATEGIES), set(POLICIES), set(DEVICES), set(KINDS), set(SECTIONS)) == before
    with pytest.raises(InputError, match="there is no file nap:deep"):
        resolve("nap:deep")
    with pytest.raises(InputError, match="there is no strategy 'dice'"):
        STRATEGIES.find("dice")


def test_the_command_searches_with_a_strategy_of_a_package(installed, tmp_path, capfd):
    table = tmp_path / "t.csv"
    rows = [f"net,train,16,{mhz},{30 / mhz},{mhz / 30}" for mhz in (300, 600, 900)]
    table.write_text("\n".join(["workload,task,batch_size,gpu_mhz,minibatch_s,power_w", *rows]) + "\n")
    search = ("search", str(table), "--strategy", "dice", "--power-budget", "25W")
    assert run(search) == 2
    assert capfd.readouterr().err.startswith("error: there is no strategy 'dice'\nhint: known: exhaustive, ")
    installed.add(OWN)
    assert run(search) == 0
    assert "strategy: dice" in capfd.readouterr().out
    installed.take_away()
    assert run(search) == 2


def test_a_workload_of_a_package_is_measured_and_its_section_is_on_the_page(installed, tmp_path, capfd):
    measure = ("profile", "nap:deep", "--batch-sizes", "1,2", "--device", "host", "--minibatches", "3", "--quiet")
    table = tmp_path / "t.parquet"
    assert run((*measure, "-o", str(table))) == 2
    assert "nap:deep" in capfd.readouterr().err
    installed.add(OWN)
    assert run((*measure, "-o", str(table))) == 0, capfd.readouterr().err
    found = read(Profile, str(table))
    assert {(row.workload, row.task, row.status) for row in found.rows} == {("deep", "infer", "ok")}
    assert write_page([found], tmp_path / "with.html").read_text().count("<p>2 points</p>") == 1
    installed.take_away()
    assert "<p>2 points</p>" not in write_page([found], tmp_path / "without.html").read_text()


def test_doctor_lists_the_plugins_of_packages_and_what_fails(installed, capfd):
    installed.add(OWN, code=POINTS.replace('open_device("twin:orin-agx", seed=seed)', '{}["board"]'))
    assert run(("doctor",)) in (0, 4)
    shown = capfd.readouterr().out
    assert re.search(r"edgetune.strategies +dice +toy-plugins", shown)
    assert re.search(r"edgetune.policies +interleave.polite +toy-plugins", shown)
    assert run(("doctor", "--json")) in (0, 4)
    can = json.loads(capfd.readouterr().out)["abilities"]["toy:0"]["anything"]
    assert can == "no: the device 'toy' of the package toy-plugins failed: KeyError: 'board'"


def test_an_error_in_the_code_of_a_package_names_it_in_two_lines(installed, tmp_path, capfd):
    table = tmp_path / "t.csv"
    rows = [f"net,train,16,{mhz},{30 / mhz},{mhz / 30}" for mhz in (300, 600, 900)]
    table.write_text("\n".join(["workload,task,batch_size,gpu_mhz,minibatch_s,power_w", *rows]) + "\n")
    raises = '    name = "dice"\n\n        def ask(self):\n            return {}["six"]'
    installed.add(OWN, code=POINTS.replace('    name = "dice"', raises))
    search = ("search", str(table), "--strategy", "dice", "--power-budget", "25W", "--quiet")
    assert run(search) == 1
    assert capfd.readouterr().err.splitlines() == [
        "error: the strategy 'dice' of the package toy-plugins failed: KeyError: 'six'",
        "hint: report it to the authors of toy-plugins, with what --verbose prints; or uninstall it",
    ]
    assert run((*search[:-1], "--verbose")) == 1
    assert 'return {}["six"]' in capfd.readouterr().err


def test_an_exit_in_the_code_of_a_package_does_not_end_as_success(installed, capfd):
    installed.add(OWN, code=POINTS.replace('open_device("twin:orin-agx", seed=seed)', "exit(0)"))
    assert run(("device", "show", "toy:0")) == 1
    assert capfd.readouterr().err.startswith("error: the device 'toy' of the package toy-plugins failed: SystemExit: 0")


@pytest.mark.parametrize("damage", [b"[edgetune.strategies]\nx = \xff:y\n", b"[edgetune.strategies]\nx\n"])
def test_damaged_entry_points_name_their_package(installed, damage):
    installed.add(OWN)
    (installed.folder / "toy_plugins-1.0.dist-info/entry_points.txt").write_bytes(damage)
    with pytest.raises(InputError, match="the entry points of the package toy-plugins cannot be read"):
        STRATEGIES.find("gmd")


@pytest.mark.parametrize("name", ["gmd"])
def test_a_taken_name_is_an_error_when_any_name_is_looked_up(installed, name):
    installed.add({"edgetune.strategies": {"gmd": "Dice"}})
    with pytest.raises(InputError, match="toy-plugins adds a strategy 'gmd', which edgetune has already"):
        STRATEGIES.find(name)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("", "AttributeError: module 'toy_plugins' has no attribute 'Dice'"),
        ("class Dice:\n    name = 'dice'\n    ask = tell = budget_free = learns_halves = 1", "it has no "),
        (POINTS.replace('"dice"', '"die"'), "its name is 'die'"),
    ],
)
def test_a_broken_package_is_named_in_two_lines(installed, code, why):
    installed.add(OWN, code=code)
    assert STRATEGIES.find("gmd").name == "gmd"
    with pytest.raises(InputError) as caught:
        STRATEGIES.find("dice")
    assert caught.value.message.startswith("the strategy 'dice' of the package toy-plugins cannot be used: ")
    assert why in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint == "repair the package toy-plugins, or uninstall it"


def test_a_row_is_an_object_or_where_it_is_and_is_added_and_removed():
    table: Registry[object] = Registry("thing", {"path": "pathlib:Path", "one": 1})
    assert (table["path"], table["one"], list(table), len(table)) == (Path, 1, ["path", "one"], 2)
    with pytest.raises(ValueError, match="there is a thing 'one' already"):
        table["one"] = 2
    table["two"] = 2
    assert table.find("two") == 2
    del table["two"]
    with pytest.raises(InputError) as caught:
        table.find("tow")
    assert (caught.value.message, caught.value.hint) == ("there is no thing 'tow'", "known: path, one")
    with pytest.raises(InputError) as caught:
        table.find("pat")
    assert caught.value.hint == "did you mean path? known: path, one"
