"""Training files: the contract, and every way to break it told in one line with the place."""

from pathlib import Path

import pytest

from edgetune.errors import InputError
from edgetune.workloads.python_file import open_handler, open_training


@pytest.fixture
def write(tmp_path):
    def written(source, name="train.py"):
        path = tmp_path / name
        path.write_text(source)
        return path

    return written


def test_classes_of_the_file_can_be_pickled(write):
    path = write(
        "import pickle\nclass Sample:\n    pass\ndef make(batch_size):\n    return lambda: pickle.dumps(Sample())\n"
    )
    assert open_training(path, 1).step()


MAKE = "def make(batch_size):\n    "


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", "does not define make(batch_size)"),
        ("make = 3\n", "does not define make(batch_size)"),
        ("def make(batch_size)\n", "train.py:1: the file raised SyntaxError: expected ':'"),
        ("import no_such_module_at_all\n", "train.py:1: the file raised ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\n", "train.py:2: the file raised SystemExit: 3"),
        (MAKE + "raise ValueError('two\\nlines')\n", "train.py:2: make(4) raised ValueError: two lines"),
        (MAKE + "raise ValueError\n", "raised ValueError: no message"),
        (MAKE + "import json\n    json.loads('{')\n", "train.py:3: make(4) raised JSONDecodeError"),
        (MAKE + "raise ValueError('x' * 99999)\n", "raised ValueError: " + "x" * 300),
        (
            "class Mute(Exception):\n    def __str__(self):\n        return 1 / 0\n" + MAKE + "raise Mute\n",
            "make(4) raised Mute: no message",
        ),
        ("def make():\n    pass\n", "make(4) raised TypeError"),
        (MAKE + "pass\n", "make(4) returned None, not a function"),
        (MAKE + "return 3\n", "make(4) returned a int, not a function"),
    ],
)
def test_broken_contract(write, source, message):
    with pytest.raises(InputError) as caught:
        open_training(write(source), 4)
    assert message in caught.value.message
    assert len(caught.value.message) < 400
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "def step():\n        raise RuntimeError('diverged')\n    return step\n",
            "train.py:3: step() raised RuntimeError",
        ),
        ("async def step():\n        pass\n    return step\n", "step() returned a coroutine, so no minibatch has run"),
        ("def step():\n        yield 1\n    return step\n", "step() returned a generator, so no minibatch has run"),
        ("return lambda: exit()\n", "step() raised SystemExit"),
    ],
)
def test_broken_step(write, body, message):
    step = open_training(write(MAKE + body), 4).step
    with pytest.raises(InputError) as caught:
        step()
    assert message in caught.value.message


def test_place_is_the_users_line_not_the_librarys(write):
    path = write(
        "import statistics\ndef make(batch_size):\n    def step():\n\n        statistics.mean([])\n    return step\n"
    )
    with pytest.raises(InputError, match=r"train\.py:5: step\(\) raised StatisticsError"):
        open_training(path, 1).step()


def test_a_file_may_save_and_load_as_functions_or_of_its_step(tmp_path):
    path = tmp_path / "learns.py"
    path.write_text(
        "def load(path):\n    raise OSError('no such state')\n"
        "def make(batch_size):\n    def step(): return 0.5\n    step.save = lambda path: path + '!'\n    return step\n"
    )
    training = open_training(path, 2)
    assert training.step() == 0.5
    assert training.save("there") == "there!"
    with pytest.raises(InputError, match=r"learns.py:2: load\(\) raised OSError: no such state"):
        training.load("there")


def test_the_example_trains_without_a_warning(recwarn):
    pytest.importorskip("torch")
    example = Path(__file__).parents[2] / "examples" / "train_tiny.py"
    assert open_training(example, 2).step() > 0
    assert [str(warning.message) for warning in recwarn] == []


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a handler file."""

    def write(source):
        path = tmp_path / "handle.py"
        path.write_text(source)
        return path

    return write


@pytest.mark.parametrize("source", ["", "inputs = {}\n"])
def test_a_file_with_neither_is_refused(written, source):
    with pytest.raises(InputError, match=r"handle.py defines neither inputs") as refused:
        open_handler(written(source))
    assert "a handler file defines" in refused.value.hint


def test_an_exception_of_a_function_names_the_line(written):
    inputs, _ = open_handler(written("def inputs(request, line):\n    raise SystemExit('done')\n"))
    with pytest.raises(InputError, match=r"handle.py:2: inputs\(\) raised SystemExit: done"):
        inputs(0, None)
