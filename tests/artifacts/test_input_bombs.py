"""Small inputs that would fill memory or time are refused in two lines, with the limit named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from input_bombs import BOMBS

from edgetune import limits
from edgetune.artifacts import io
from edgetune.artifacts.files import read_source
from edgetune.artifacts.io import read_any
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused(bomb: str, tmp_path: Path) -> None:
    make, words = BOMBS[bomb]
    file = tmp_path / "bomb"
    file.write_bytes(make())
    assert file.stat().st_size < 2_000_000
    with limits.limited(document_nodes=10_000), pytest.raises(InputError) as caught:
        read_any(str(file))
    assert words in caught.value.message


_PEAK = """
from pathlib import Path
from input_bombs import BOMBS
from edgetune.artifacts import io
from edgetune.artifacts.io import sniff, table_in
from edgetune.errors import InputError
from edgetune.limits import set_limits

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))  # getrusage's began before exec

files = [make() for make, _ in BOMBS.values()]
before = peak()
set_limits(["document_nodes=20000"])  # the parser takes time rather than memory
for data in files:
    try:
        form = sniff(data, name="x")
        table_in(data, form, name="x") if form != "yaml" else io.from_bytes(data, kind="plan", name="x")
    except InputError:
        pass
print((peak() - before) // 1024)
"""


def test_no_bomb_takes_500_mb() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, text=True, env=env, check=True)
    assert int(done.stdout) < 400


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_end_is_read_to_the_limit(device: str) -> None:
    with limits.limited(file_bytes=1 << 20), pytest.raises(InputError, match="limit file_bytes allows"):
        read_source(device)


def test_a_file_as_long_as_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    with limits.limited(file_bytes=100):
        assert read_source(file) == b"x" * 100
    with limits.limited(file_bytes=99), pytest.raises(InputError, match="limit file_bytes"):
        read_source(file)


def test_a_raised_limit_lets_the_file_in() -> None:
    make, _ = BOMBS["one long list"]
    with limits.limited(table_cells=20_000_000, table_bytes=1 << 30):
        assert len(io.from_bytes(make(), kind="profile", name="x").rows) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!bool x", "line 1: could not determine a constructor for the tag"),
        ('a: !!int ""', "could not determine a constructor for the tag"),
        ("a: !!timestamp x", "could not determine a constructor for the tag"),
        ("a: !!binary ä", "could not determine a constructor for the tag"),
        ("a: !!float 1:x", "could not determine a constructor for the tag"),
        ("a: !!python/object/apply:os.system [x]", "could not determine a constructor for the tag"),
        ("a: !x 1", "could not determine a constructor for the tag"),
        ("? [a]\n: 1", "a key is a list or a mapping"),
        ("{[a]: 1}", "a key is a list or a mapping"),
        ("? {a: 1}\n: 1", "a key is a list or a mapping"),
    ],
)
def test_yaml_that_documents_do_not_use_is_an_input_error(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_yaml(text, name="x.yaml")
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("010", "010"),
        ("=", "="),
        ("2020-01-01", "2020-01-01"),
        ("!!str 5", "5"),
        ("0x1F", 31),
        ("-1_000", -1000),
        ("1e3", 1000.0),
        ("1" * 41, "1" * 41),
    ],
)
def test_a_plain_text_is_what_people_mean(text: str, value: object) -> None:
    assert load_yaml(f"a: {text}", name="x.yaml") == {"a": value}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("column", ["gpu_mhz", "minibatch_s", "power_w", "power_limit_w", "temp_max_c"])
def test_no_number_of_a_profile_is_taken_that_is_not_finite(column: str, value: str) -> None:
    cells = {"workload": "net", "task": "infer", "batch_size": "1", "gpu_mhz": "300", "minibatch_s": "0.1"}
    cells[column] = value
    text = f"{','.join(cells)}\n{','.join(cells.values())}\n"
    try:
        (row,) = io.from_bytes(text.encode(), kind="profile", name="x.csv").rows
    except InputError as error:
        assert column in error.message  # noqa: PT017
    else:
        assert getattr(row, column) is None


def test_letters_that_json_writes_as_two_escapes_are_one():
    assert load_yaml(json.dumps({"name": "a\U0001f600"}), name="x.json") == {"name": "a\U0001f600"}
