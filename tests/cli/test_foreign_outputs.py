"""No command writes over a file that edgetune did not write, unless it is told so with --force."""

from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.cli.plot import write_drawing
from edgetune.cli.screen import Screen
from edgetune.errors import InputError
from edgetune.workflows.output import Target

TWIN = ("--device", "twin:orin-agx")
NOTES = b"day,what\n1,bought a board\n"
COMMANDS = {
    "profile": (("profile", "zoo:squeezenet", "-t", "infer", *TWIN), "-o", ".json"),
    "search": (("search", "table.csv", "--power-budget", "30W"), "-o", ".yaml"),
    "search --trace": (("search", "table.csv", "--power-budget", "30W"), "--trace", ".csv"),
    "search --plot": (("search", "table.csv", "--power-budget", "30W"), "--plot", ".svg"),
    "search evaluate": (("search", "evaluate", "table.csv", "--strategies", "random:3", "--jobs", "1"), "-o", ".csv"),
    "merge": (("merge", "table.csv", "more.csv"), "-o", ".csv"),
    "roofline": (("roofline", "zoo:squeezenet", *TWIN), "-o", ".yaml"),
    "roofline --plot": (("roofline", "zoo:squeezenet", *TWIN), "--plot", ".html"),
    "roofline ops": (("roofline", "ops", "zoo:squeezenet"), "-o", ".csv"),
    "interleave": (("interleave", "plan.yaml", *TWIN, "--duration", "2s"), "-o", ".csv"),
    "interleave --plot": (("interleave", "plan.yaml", *TWIN, "--duration", "2s", "-o", "r.csv"), "--plot", ".png"),
    "schedule run": (("schedule", "run", "jobs.yaml", "--simulate"), "-o", ".json"),
    "schedule profile": (("schedule", "profile", "tiny.onnx", "--repeats", "3"), "-o", ".csv"),
    "kernels simulate": (("schedule", "kernels", "simulate", "tasks.yaml"), "-o", ".csv"),
    "kernels bench": (
        ("schedule", "kernels", "bench", "A", "--turns", "1", "--duration", "5ms", "--policy", "sequential"),
        "-o", ".json",
    ),
    "kernels transform": (("schedule", "kernels", "transform", "scale.cu"), "-o", ".ptx"),
    "zoo export": (("zoo", "export", "squeezenet"), "-o", ".onnx"),
    "show": (("show", "table.csv"), "-o", ".csv"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(inputs_folder):
    return inputs_folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_foreign_file_is_kept(edgetune, folder, name):
    words, option, ending = COMMANDS[name]
    path = folder / f"mine{ending}"
    path.write_bytes(NOTES)
    before = sorted(folder.iterdir())
    ended = edgetune(*words, option, path.name)
    assert_two_lines(ended, 2)
    assert path.read_bytes() == NOTES
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", ["search", "roofline ops", "kernels transform", "show"])
def test_a_foreign_file_is_replaced_with_force_and_ours_without(edgetune, folder, name):
    words, option, ending = COMMANDS[name]
    path = folder / f"mine{ending}"
    path.write_bytes(NOTES)
    assert edgetune(*words, option, path.name, "--force").code == 0
    assert path.read_bytes() != NOTES
    again = edgetune(*words, option, path.name)
    assert again.code == 0, again.err


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf", ".html"])
def test_a_figure_of_another_program_is_kept_and_our_own_is_drawn_again(folder, ending):
    from matplotlib.figure import Figure

    drawn, path = Figure(), f"roof{ending}"
    drawn.subplots()
    page = b'<meta name="generator" content="edgetune">'
    for _ in range(2):
        Target(Path(path)).check("figure", "--plot")
        write_drawing(lambda: page if ending == ".html" else drawn, path, Screen(True))
    Path(path).write_bytes(Path(path).read_bytes().replace(b"edgetune", b"inkscape"))
    with pytest.raises(InputError, match="would be lost"):
        Target(Path(path)).check("figure", "--plot")


def test_a_document_written_by_hand_is_no_file_of_edgetune(edgetune, folder):
    hand = Path("jobs.yaml").read_bytes()
    assert b"tool:" not in hand
    Path("mine.yaml").write_bytes(hand)
    ended = edgetune("show", "jobs.yaml", "-o", "mine.yaml")
    assert_two_lines(ended, 2)
    assert Path("mine.yaml").read_bytes() == hand


def test_fresh_alone_replaces_no_foreign_file(edgetune, folder):
    Path("mine.csv").write_bytes(NOTES)
    words = ("profile", "zoo:squeezenet", "-t", "infer", *TWIN, "-o", "mine.csv", "--fresh")
    assert_two_lines(edgetune(*words), 2)
    assert Path("mine.csv").read_bytes() == NOTES
    assert edgetune(*words, "--force").code == 0


def test_an_empty_file_holds_nothing_and_is_written(edgetune, folder):
    Path("new.yaml").touch()
    assert edgetune("search", "table.csv", "--power-budget", "30W", "-o", "new.yaml").code == 0


def test_a_checkpoint_is_written_over_no_file_without_force_but_the_one_resumed_from(edgetune, folder):
    Path("train.py").write_text("def make(batch_size):\n    return lambda: None\n", encoding="utf-8")
    tenants = "kind: tenants\nversion: 1\ntenants:\n- {name: t, train: train.py, batch_size: 1, checkpoint: weights.pt"
    Path("tenants.yaml").write_text(tenants + "}\n", encoding="utf-8")
    Path("resuming.yaml").write_text(tenants + ", resume: weights.pt}\n", encoding="utf-8")
    Path("weights.pt").write_bytes(b"PK\x03\x04 of years of training")
    words = ("--device", "host", "--dry-run")
    assert_two_lines(edgetune("interleave", "tenants.yaml", *words), 2)
    assert edgetune("interleave", "tenants.yaml", *words, "--force").code == 0
    assert edgetune("interleave", "resuming.yaml", *words).code == 0
    assert Path("weights.pt").read_bytes() == b"PK\x03\x04 of years of training"
