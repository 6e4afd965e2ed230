"""Problems in YAML files: read as people write them, refused with what to do about it."""

import pytest

from edgetune.artifacts.problem import Problem, read_problem
from edgetune.errors import InputError


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "problem.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_problem(str(path))

    return of


def test_a_problem_is_read(read):
    lines = (
        "kind: train+infer",
        "power_budget_w: 30",
        "latency_budget_s: 0.5",
        "arrival_rate_per_s: 60",
        "background: resnet18",
    )
    text = "\n".join(lines)
    expected = Problem("train+infer", 30.0, 0.5, 60.0, background="resnet18")
    assert read(text) == expected
    assert read(f"kind: plan\nproblem: {{{', '.join(text.splitlines())}}}\n") == expected


def test_epochs_are_a_mapping_or_a_list(read):
    expected = Problem("accuracy", 10.0, epochs_to_target=((8, 12.5), (16, 10.0)))
    assert read("kind: accuracy\npower_budget_w: 10\nepochs_to_target: {8: 12.5, 16: 10}") == expected
    assert read("kind: accuracy\npower_budget_w: 10\nepochs_to_target: [[8, 12.5], [16, 10]]") == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("kind: train\npower_budget: 30", "unknown key 'power_budget'", "did you mean power_budget_w?"),
        ("kind: train\npower_budget_w: 30W", "power_budget_w is '30W'", "valid number"),
        ("kind: train\npower_budget_w: -3", "power_budget_w is -3", "above zero"),
        ("kind: train\npower_budget_w: .nan", "power_budget_w is nan", "above zero"),
        ("kind: train\nmargin: 5", "margin is 5", "between 0 and 1"),
        ("kind: swim", "kind is 'swim'", "kind must be"),
        ("power_budget_w: 30", "has no kind", "see the problem of a plan"),
        ("- kind", "it holds list", "e.g. kind: train"),
        ("kind: train\nkind: infer", "given twice", "unique"),
        ("kind: accuracy\nepochs_to_target: {8: 0}", "epochs_to_target.8 is 0", "above zero"),
        (b"\xff\xfe\x00", "not a text file", "YAML"),
    ],
)
def test_what_is_no_problem_is_refused_with_a_remedy(read, text, message, hint):
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in caught.value.message
    assert hint in caught.value.hint
