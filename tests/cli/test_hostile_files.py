"""Files of every kind with hostile texts in them, as every command shows them."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from hostile import FILE_NAME, UNICODE, assert_harmless

from edgetune.artifacts.io import read_any, write
from edgetune.errors import InputError

GOLDEN = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if path.suffix != ".py")
UNTOUCHED = ("kind", "version", "tool")
COMMANDS = {
    "profile": [
        ("search", "FILE", "--strategy", "exhaustive", "-o", "plan.yaml", "--trace", "trace.parquet"),
        ("search", "FILE", "--json"), ("merge", "FILE", "FILE", "-o", "merged.parquet"),
        ("compare", "FILE", "FILE"), ("compare", "FILE", "FILE", "--json", "--fail-above", "3%"),
        ("device", "recorded:FILE"), ("device", "modes", "recorded:FILE"),
        ("profile", f"x{UNICODE}", "--device", "recorded:FILE"), ("search", "evaluate", "FILE", "--sample", "1"),
    ],
    "plan": [("interleave", "FILE", "--dry-run", "--device", "twin:orin-agx")],
    "jobs": [("schedule", "run", "FILE", "--simulate", "--dry-run")],
    "kernel_tasks": [("schedule", "kernels", "simulate", "FILE", "--dry-run")],
    "convergence": [("search", "FILE", "--convergence", "FILE", "--kind", "accuracy")],
}  # fmt: skip
"""What else than ``show`` reads each kind of file; ``FILE`` stands for its name."""


def texts(document, path=()):
    """Yield the places of a document's texts, of a list those of its first item."""
    if isinstance(document, str) and path[-1] not in UNTOUCHED:
        yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from texts(value, (*path, key))
    if isinstance(document, list) and document:
        yield from texts(document[0], (*path, 0))


def spoilt(document, path, letters):
    """Return a document with hostile letters at the end of one text."""
    document = copy.deepcopy(document)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] += letters
    return document


def document_of(artifact, folder):
    """Return a golden artifact as data, as edgetune exports it, with the first rows of a table."""
    write(artifact, folder / "whole.json")
    document = json.loads((folder / "whole.json").read_text(encoding="utf-8"))
    if "rows" in document:
        document["rows"] = document["rows"][:3]
    return document


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a hostile name."""
    path = tmp_path / FILE_NAME
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_no_text_of_any_kind_of_file_reaches_the_terminal_as_it_is(edgetune_raw, folder, golden):
    artifact = read_any(str(golden))
    document = everywhere = document_of(artifact, folder)
    for path in texts(document):
        changed = spoilt(everywhere, path, UNICODE)
        Path("spoilt.json").write_text(json.dumps(changed), encoding="utf-8")
        try:
            read_any("spoilt.json")
        except InputError:
            ended = edgetune_raw("show", "spoilt.json")
            assert ended.code == 2, (path, ended.err)
            assert_harmless(ended.out + ended.err)
        else:
            everywhere = changed
    assert everywhere != document
    name = f"n{FILE_NAME}.json"
    Path(name).write_text(json.dumps(everywhere), encoding="utf-8")
    for line in (("show", "FILE"), ("show", "FILE", "--json"), *COMMANDS.get(artifact.header.kind, ())):
        words = [word.replace("FILE", name) for word in line]
        ended = edgetune_raw(*words)
        assert ended.code in (0, 2, 3, 4), (words, ended.err)
        assert ended.code == 0 or line[0] != "show", ended.err
        assert_harmless(ended.out + ended.err)


def test_keys_and_values_of_yaml_are_shown_as_escapes_and_mean_the_same(edgetune_raw, folder):
    golden = next(path for path in GOLDEN if path.name.startswith("plan"))
    document = yaml.safe_load(golden.read_text(encoding="utf-8"))
    document["inputs"] = {**document["inputs"], f"k{UNICODE}": [f"v{UNICODE}"]}
    Path("plan.yaml").write_text(yaml.safe_dump(document, allow_unicode=False), encoding="utf-8")
    ended = edgetune_raw("show", "plan.yaml")
    assert ended.code == 0, ended.err
    assert_harmless(ended.out)
    assert yaml.safe_load(ended.out)["inputs"][f"k{UNICODE}"] == [f"v{UNICODE}"]
    machine = edgetune_raw("show", "plan.yaml", "--json")
    assert_harmless(machine.out)
    assert json.loads(machine.out)["inputs"][f"k{UNICODE}"] == [f"v{UNICODE}"]


@pytest.mark.parametrize("ending", ["csv", "yaml", "parquet", "onnx", "py", "cu", "json"])
def test_files_that_are_nothing_are_refused_harmlessly(edgetune_raw, folder, ending):
    name = f"n{FILE_NAME}.{ending}"
    Path(name).write_text(f"a{UNICODE},b{UNICODE}: {UNICODE}\n{UNICODE},{UNICODE},{UNICODE}\n", encoding="utf-8")
    for line in (("show",), ("search",), ("interleave",), ("schedule", "run"), ("schedule", "kernels", "transform")):
        ended = edgetune_raw(*line, name)
        assert ended.code == 2, (line, ended.err)
        assert_harmless(ended.out + ended.err)


def test_columns_of_foreign_tables_are_named_harmlessly(edgetune_raw, folder):
    Path("t.csv").write_text(
        f'"col{UNICODE}",workload,batch_size,minibatch_s\n"{UNICODE}","{UNICODE}",1,0.1\n', encoding="utf-8"
    )
    for line in (("show", "t.csv"), ("search", "t.csv"), ("show", "t.csv", "--column", f"{UNICODE}=task")):
        ended = edgetune_raw(*line)
        assert ended.code in (0, 2), ended.err
        assert_harmless(ended.out + ended.err)
