"""No hint names an option that the command it is for does not have."""

import pytest
from hint_sources import hints, reached, trees
from hints import ANYWHERE, command_at, commands, misplaced, option_words, phrases

FOREIGN = {"--user", "--upgrade"}
"""Of pip, which hints name without its name beside them."""


def module_of(path):
    """Return the module in which a command is defined."""
    from typer.main import get_command

    from edgetune.cli.app import app

    command = get_command(app)
    with command.make_context("edgetune", [], resilient_parsing=True) as context:
        at = context
        for word in path:
            command = command.get_command(at, word)
            at = command.make_context(word, [], parent=at, resilient_parsing=True)
    return getattr(command.callback, "__wrapped__", command.callback).__module__


@pytest.fixture(scope="module")
def reaching():
    """Return by module the commands whose code imports it."""
    found = {module: set() for module in trees()}
    for path in commands():
        for module in reached(module_of(path)):
            found[module].add(path)
    return found


def test_hints_are_found_in_all_parts_of_the_package():
    assert len(hints()) > 500
    parts = {hint.module.removeprefix("edgetune.stages.").removeprefix("edgetune.").split(".")[0] for hint in hints()}
    assert parts >= {"workflows", "devices", "workloads", "schedule", "search"}


def test_every_command_line_in_a_hint_is_one():
    wrong = [
        (hint, option)
        for hint in hints()
        for path, text in phrases(hint.text)
        if path is not None
        for option in option_words(text)
        if option not in commands()[path]
    ]
    assert wrong == []


def test_every_other_option_in_a_hint_is_of_a_command_that_can_print_it(reaching):
    wrong = []
    for hint in hints():
        possible = set().union(*(commands()[path] for path in reaching[hint.module]), FOREIGN, ANYWHERE)
        bare = {option for path, text in phrases(hint.text) if path is None for option in option_words(text)}
        wrong += [(hint, option) for option in bare if option not in possible]
    assert wrong == []


@pytest.mark.parametrize("package", ["devices", "profiling.measure", "schedule.jobs", "workloads.partition"])
def test_shared_hints_name_no_option_of_a_single_command(package):
    bare = [
        (hint, text)
        for hint in hints()
        if hint.module.startswith(f"edgetune.{package}")
        for path, text in phrases(hint.text)
        if path is None and set(option_words(text)) - FOREIGN - {"--count", "--duration"}
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("argv", "hint", "expected"),
    [
        (["profile", "x"], "fix it with --dim n=8", []),
        (["schedule", "run", "x"], "fix it with --dim n=8", ["--dim of edgetune schedule run"]),
        (["schedule", "run", "x"], "type edgetune schedule prepare --dim n=8, or add --memory 1MiB", []),
        (["search", "x"], "type `edgetune interleave --batch-sizes 2`", ["--batch-sizes of edgetune interleave"]),
        (["search", "evaluate", "x"], "leave --max-points out", ["--max-points of edgetune search evaluate"]),
        (["doctor"], "pip install torch --index-url URL; then see edgetune doctor --json", []),
    ],
)
def test_options_are_held_against_the_command_that_they_are_for(argv, hint, expected):
    assert misplaced(hint, argv) == expected


def test_a_command_line_invokes_the_longest_command():
    assert command_at(["schedule", "kernels", "run", "x"]) == ("schedule", "kernels", "run")
    assert command_at(["search", "table.csv"]) == ("search",)
    assert command_at([]) == ()


OLD = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.csv}}
jobs: [{name: photos, networks: [faces], arrivals: periodic:1s}]
"""
COSTS = "network,layer,kind,weight_bytes,output_bytes,load_s,execute_s\nfaces,fc,fc,1000,100,0.1,0.1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(OLD)
    (tmp_path / "costs.csv").write_text(COSTS)
    (tmp_path / "table.csv").write_text(
        "workload,task,batch_size,gpu_mhz,minibatch_s,power_w\nnet,infer,8,300,0.2,12\n"
    )
    (tmp_path / "plan.yaml").write_text("kind: plan\n")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "device show jetson",
        "device modes jetson all",
        "device set jetson all",
        "device watch jetson",
        "device show recorded:",
        "device modes twin:orin-agx gpu_mhz=1",
        "device modes host nonsense",
        "profile zoo:lstm --task infer --device jetson",
        "profile kernel:matmul:256 --device twin:orin-agx",
        "profile zoo:lstm --task infer --device host --cool-to 20C --batch-sizes 0",
        "search table.csv --kind train",
        "search table.csv --arrival-rate 60",
        "search zoo:lstm --task infer --batch-sizes 1",
        "search evaluate table.csv --family infer --power-noise 3",
        "roofline zoo:lstm --device host --tune 5%",
        "roofline ops nothing.onnx",
        "interleave plan.yaml",
        "interleave --infer zoo:lstm --device host",
        "interleave --infer zoo:lstm --train zoo:lstm --arrivals uniform:4 --latency-budget 1s --engine quick",
        "schedule run jobs.yaml",
        "schedule run jobs.yaml --simulate",
        "schedule run jobs.yaml --policy fcfs,fcfs --simulate",
        "schedule prepare nothing.onnx",
        "schedule profile nothing",
        "schedule kernels run jobs.yaml",
        "schedule kernels simulate jobs.yaml",
        "schedule kernels transform nothing.cu",
        "show nothing.parquet",
        "show table.csv --view gantt",
        "zoo export nothing",
        "doctor --root nowhere",
    ],
)
def test_a_refusal_names_options_of_the_command_that_was_typed(edgetune, folder, line):
    """The check itself is in the fixture, and holds for every refusal of every test that uses it."""
    ended = edgetune(*line.split())
    assert ended.code in (2, 3, 4), ended.err
    assert ended.err.splitlines()[-1].startswith("hint: ")
