"""Artifacts save themselves, become Arrow and pandas tables, and show themselves; a kind is one module and one row."""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest

from edgetune.artifacts import profile
from edgetune.artifacts.artifact import Raw, Table
from edgetune.artifacts.columns import PositiveFloat, Share
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.io import read, read_any, upgrade
from edgetune.artifacts.kinds import ENDINGS, KINDS, TABLE, Kind, class_of, current_version
from edgetune.artifacts.origin import command_runs, running_command
from edgetune.artifacts.profile import Profile
from edgetune.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(kind):
    (path,) = GOLDEN.glob(f"{kind}-v{current_version(kind)}.*")
    return read_any(str(path))


@pytest.mark.parametrize("kind", ["profile", "plan"])
def test_an_artifact_saves_itself_over_its_own_kind_alone(kind, tmp_path):
    artifact, path = golden(kind), tmp_path / f"mine{KINDS[kind].endings[0]}"
    path.write_text("my notes, for years\n")
    with pytest.raises(
        InputError, match=r"mine\..* is not recognised as a file of edgetune, and would be lost"
    ) as caught:
        artifact.save(path)
    assert (caught.value.hint, path.read_text()) == (
        "name another file, or replace it with force=True", "my notes, for years\n"
    )  # fmt: skip
    assert artifact.save(path, force=True) == artifact.save(path) == path
    other = golden("trace" if kind == "profile" else "roofline")
    with pytest.raises(InputError, match=f"is a file of kind {kind}, and would be lost"):
        other.save(path)
    assert read_any(str(path)) == artifact


@pytest.mark.parametrize("kind", ["profile", "plan"])
def test_a_header_may_have_keys_of_a_newer_version(kind, tmp_path):
    artifact = golden(kind)
    stated = replace(artifact.header, warnings=(DataWarning("odd", "look again", {"power_w": 1.0}),))
    path = replace(artifact, header=stated).save(tmp_path / "new.json")
    document = json.loads(path.read_text())
    document["warnings"][0]["severity"] = "high"
    path.write_text(json.dumps(document))
    assert read_any(str(path)).header == stated


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_saves_itself_and_becomes_a_table(kind, tmp_path):
    artifact = golden(kind)
    saved = artifact.save(tmp_path / "copy")
    assert type(read(type(artifact), str(saved))) is type(artifact)
    table = artifact.to_arrow()
    assert table.num_rows > 0
    assert artifact._repr_html_().count("<tr>") == 1 + min(table.num_rows, 20)
    assert kind in artifact._repr_html_()


def test_what_a_notebook_shows_is_escaped():
    from dataclasses import replace

    table = golden("profile")
    hostile = replace(table, rows=tuple(replace(row, workload="<script>") for row in table.rows))
    assert "<script>" not in hostile._repr_html_()


@dataclass(frozen=True, slots=True)
class MoodRow:
    mood: str
    share: Share
    duration_s: PositiveFloat | None = None


@dataclass(frozen=True, slots=True)
class Mood(Table):
    header: Header
    rows: tuple[MoodRow, ...]

    ROW = MoodRow


def test_a_kind_is_a_module_and_a_row(monkeypatch, tmp_path):
    module = ModuleType("edgetune.artifacts.mood")
    module.Mood, module.VERSION = Mood, 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "edgetune.artifacts.mood", module)
    monkeypatch.setitem(KINDS, "mood", Kind("Mood", TABLE, "edgetune feel"))
    monkeypatch.setitem(ENDINGS, "mood", TABLE)
    made = Mood(Header.new("mood", 1), (MoodRow("calm", 0.5, 2.0), MoodRow("tired", 0.25)))
    for ending in (".parquet", ".json"):
        path = str(made.save(tmp_path / f"mood{ending}"))
        assert read(Mood, path) == read_any(path) == made
        with pytest.raises(InputError, match="is a mood, not a profile"):
            read(Profile, path)
    impossible = Mood(made.header, (MoodRow("calm", 1.5),))
    with pytest.raises(InputError, match=r"row 1: share is 1\.5") as caught:
        read(Mood, str(impossible.save(tmp_path / "impossible.parquet")))
    assert "between 0 and 1" in caught.value.hint
    with pytest.raises(InputError, match="row 1: duration_s is -1"):
        read(Mood, str(Mood(made.header, (MoodRow("calm", 1, -1.0),)).save(tmp_path / "negative.parquet")))


def test_a_header_records_the_command_that_runs_and_a_python_program_has_none():
    with command_runs(["profile", "my net.onnx", "-o", "a.parquet"]):
        assert Header.new("profile", 2).command == "edgetune profile 'my net.onnx' -o a.parquet"
    assert Header.new("profile", 2).command == ""


@pytest.mark.parametrize(
    ("words", "recorded"),
    [
        (["--", "serve", "--api-key", "s3cret", "--port", "80"], ["--", "serve", "--api-key", "***", "--port", "80"]),
        (["--", "serve", "--hf_token=s3cret"], ["--", "serve", "--hf_token=***"]),
        (["--", "env", "AWS_SECRET=s3cret", "run"], ["--", "env", "AWS_SECRET=***", "run"]),
        (["http://me:s3cret@localhost:80/v1"], ["http://***@localhost:80/v1"]),
        (["--", "curl", "-H", "Authorization: Bearer s3cret"], ["--", "curl", "-H", "Authorization: ***"]),
        (["--", "curl", "-H", "X-Api-Key: s3cret"], ["--", "curl", "-H", "X-Api-Key: ***"]),
        (["--tokens", "128", "--keep-awake", "yes"], ["--tokens", "128", "--keep-awake", "yes"]),
    ],
)
def test_secrets_are_masked_and_nothing_else(words: list[str], recorded: list[str]):
    with command_runs(["profile", *words]):
        assert shlex.split(running_command()) == ["edgetune", "profile", *recorded]


@pytest.mark.parametrize("kind", KINDS)
def test_every_older_version_of_every_kind_has_its_step(kind: str) -> None:
    assert len(class_of(kind).UPGRADES) == current_version(kind) - 1


def test_steps_run_in_order_from_the_version_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(word: str) -> object:
        return lambda raw: replace(raw, body=[*raw.body, word])

    monkeypatch.setattr(profile, "VERSION", 3)
    monkeypatch.setattr(Profile, "UPGRADES", (step("to 2"), step("to 3")))

    def bodies(version: int) -> object:
        return upgrade(Raw({"kind": "profile", "version": version}, []), kind="profile", name="it").body

    assert [bodies(1), bodies(2), bodies(3)] == [["to 2", "to 3"], ["to 3"], []]
    with pytest.raises(InputError, match="newer edgetune: profile version 4, known up to 3"):
        bodies(4)


_HEAVY = ("numpy", "pyarrow", "pydantic", "yaml", "torch", "onnx", "onnxruntime", "scipy")


@pytest.mark.parametrize(
    "module",
    ["artifacts.io", "artifacts.kinds", "devices.device", "devices.modes", "devices.mode_grids", "devices.recorded"],
)
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, edgetune.{module}; print([name for name in {_HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
