"""A plan is a document people read and scripts parse: its layout is fixed and nothing in it is guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.errors import InputError

_PLAN = Plan(
    header=Header("plan", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", {"workload": {"name": "resnet18"}}, {"seed": 0}),
    problem=Problem("train", power_budget_w=30.0),
    configuration=Configuration(Mode(8, 1344.0, 727.5, 2133.0), batch_size=16),
    measured=PlanFigures(0.0712, 28.9),
    search=SearchSummary("roofline", 8, 0),
    predicted=PlanFigures(1e-05, 28.7),
)
_TEXT = """\
kind: plan
version: 1
created: '2026-01-02T03:04:05Z'
tool: edgetune 0.1.0
inputs:
  workload: {name: resnet18}
conditions:
  seed: 0
warnings: []
problem: {kind: train, power_budget_w: 30.0}
configuration:
  mode: {cpu_cores: 8, cpu_mhz: 1344, gpu_mhz: 727.5, mem_mhz: 2133}
  batch_size: 16
measured: {minibatch_s: 0.0712, power_w: 28.9}
predicted: {minibatch_s: 1.0e-05, power_w: 28.7}
search: {strategy: roofline, points_measured: 8, seed: 0, known_points: 0}
"""


def _read(text: str) -> Plan:
    return io.from_bytes(text.encode(), kind="plan", name="plan.yaml")


def _refused(old: str, new: str) -> tuple[str, str]:
    assert old in _TEXT
    with pytest.raises(InputError) as caught:
        _read(_TEXT.replace(old, new, 1))
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value.message, caught.value.hint


def test_the_layout_is_the_documented_one() -> None:
    assert _PLAN.to_bytes().decode() == _TEXT


def test_it_reads_back() -> None:
    assert _read(_TEXT) == _PLAN


def test_a_margin_and_a_caution_are_written_where_there_are_any() -> None:
    caution = DataWarning("known-points", "measure again", {"points": 3.0})
    plan = replace(
        _PLAN, problem=replace(_PLAN.problem, margin=0.05), header=replace(_PLAN.header, warnings=(caution,))
    )
    text = plan.to_bytes().decode()
    assert "problem: {kind: train, power_budget_w: 30.0, margin: 0.05}" in text
    assert _read(text) == plan


def test_what_was_not_predicted_is_not_written() -> None:
    text = replace(_PLAN, predicted=None).to_bytes().decode()
    assert "predicted" not in text
    assert _read(text).predicted is None


def test_numpy_numbers_become_plain_ones() -> None:
    import numpy as np

    plan = replace(_PLAN, measured=PlanFigures(np.float64(0.0712), np.float64(28.9)))  # type: ignore[arg-type]
    assert plan.to_bytes().decode() == _TEXT


def test_the_short_form_of_the_documentation_is_a_plan() -> None:
    plan = _read("kind: plan\nversion: 1\n" + _TEXT[_TEXT.index("problem") :])
    assert replace(plan, header=_PLAN.header) == _PLAN
    assert (plan.header.created, plan.header.inputs) == ("unknown", {})


def test_json_is_yaml_too() -> None:
    import json

    import yaml

    assert _read(json.dumps(yaml.safe_load(_TEXT))) == _PLAN


def test_an_unquoted_date_stays_a_text() -> None:
    assert _read(_TEXT.replace("'", "")).header.created == "2026-01-02T03:04:05Z"


def test_an_exponent_without_a_point_is_a_number() -> None:
    assert _read(_TEXT.replace("30.0", "3e1")) == _PLAN


_figure = st.none() | st.floats(min_value=1e-9, max_value=1e9)
_count = st.none() | st.integers(1, 10**6)


@settings(deadline=None, max_examples=80)
@given(
    problem=st.builds(
        Problem,
        st.sampled_from(["train", "infer", "train+infer", "infer+infer", "accuracy"]),
        _figure,
        _figure,
        _figure,
        st.sampled_from([None, "throughput", "latency", "energy", "energy-delay", "time"]),
        st.floats(0, 1),
        st.none() | st.text(max_size=8),
        _count,
        st.lists(st.tuples(st.integers(1, 512), st.floats(0.1, 1e3)), max_size=3).map(tuple),
    ),
    mode=st.builds(Mode, _count, _figure, _figure, _figure, _figure),
    batch_size=_count,
    measured=st.builds(PlanFigures, _figure, _figure, _figure, _figure, _figure),
    name=st.text(max_size=20),
)
@example(_PLAN.problem, Mode(), None, PlanFigures(), "0E0")
@example(_PLAN.problem, Mode(), None, PlanFigures(), "a\x85b")
def test_any_plan_reads_back(
    problem: Problem, mode: Mode, batch_size: int | None, measured: PlanFigures, name: str
) -> None:
    plan = Plan(
        header=replace(_PLAN.header, inputs={"workload": {"name": name}}, conditions={name: [1, None, {"a": name}]}),
        problem=problem,
        configuration=Configuration(mode, batch_size),
        measured=measured,
        search=SearchSummary(name, 1, 0),
        predicted=measured,
    )
    assert io.from_bytes(plan.to_bytes(), kind="plan", name="it") == plan


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("power_budget_w", "power_budget", "unknown key 'problem.power_budget'", "did you mean power_budget_w?"),
        ("gpu_mhz", "gpu_khz", "unknown key 'configuration.mode.gpu_khz'", "did you mean gpu_mhz?"),
        ("problem", "problems", "unknown key 'problems'", "did you mean problem?"),
        ("minibatch_s", "mood", "unknown key 'measured.mood'", "known here: minibatch_s, power_w"),
        ("warnings: []", "warnings: []\nwarnings: []", "line 10: the key 'warnings' is given twice", "unique"),
        ("power_w: 28.9", "power_w: 28.9, power_w: 1", "line 14: the key 'power_w' is given twice", "unique"),
        ("30.0", ".nan", "problem.power_budget_w is nan", "above zero"),
        ("30.0", "-30.0", "problem.power_budget_w is -30.0", "above zero"),
        ("30.0", "0", "problem.power_budget_w is 0", "above zero"),
        ("30.0", ".inf", "problem.power_budget_w is inf", "above zero"),
        ("30.0", "30.0, margin: 1.5", "problem.margin is 1.5", "between 0 and 1"),
        ("30.0", "30W", "problem.power_budget_w is '30W'", "must be a valid number"),
        ("30.0", "true", "problem.power_budget_w is True", "must be a valid number"),
        ("batch_size: 16", "batch_size: 16.5", "configuration.batch_size is 16.5", "integer"),
        ("batch_size: 16", "batch_size: '16'", "configuration.batch_size is '16'", "integer"),
        ("batch_size: 16", "batch_size: -1", "configuration.batch_size is -1", "above zero"),
        ("gpu_mhz: 727.5", "gpu_mhz: -1", "configuration.mode.gpu_mhz is -1", "above zero"),
        ("kind: train", "kind: learn", "problem.kind is 'learn'", "must be 'train'"),
        ("{kind: train, ", "{", "has no problem.kind", "edgetune search"),
        ("search: {", "search: {points: {", "line 17", "correct the line"),
        ("measured: {minibatch_s: 0.0712, power_w: 28.9}\n", "", "has no measured", "edgetune search"),
        ("{minibatch_s: 0.0712, power_w: 28.9}", "[1, 2]", "measured is [1, 2]", "must be"),
        ("batch_size: 16", "batch_size: &a 16\n  x: *a", "aliases are not used here", "correct the line"),
        ("tool: edgetune 0.1.0", "tool: !!python/name:os.system x", "could not determine a constructor", "correct the"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_mended(old: str, new: str, message: str, hint: str) -> None:
    said, advice = _refused(old, new)
    assert said.startswith("plan.yaml")
    assert message in said
    assert hint in advice


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- kind: plan\n", "it holds list"),
        ("just words\n", "it holds str"),
        ("version: 1\n", "there is no `kind`"),
        ("workload,task\nnet,train\n", "it holds str"),
        ("kind: plan\nversion: 1\n---\nkind: plan\n", "expected a single document"),
        ("kind: plan\n\tversion: 1\n", "line 2"),
        ("kind: " + "[" * 5000, "nested too deeply"),
        ("kind: plan\x07\n", "not valid YAML"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        _read(text)
    assert words in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint
