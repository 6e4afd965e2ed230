"""Every command, option and argument is given hostile words: two lines come of it, and nothing steers a terminal."""

import pytest
from command_line import assert_two_lines
from hostile import EVERYTHING, SEQUENCES, assert_harmless
from typer.main import get_command

from edgetune.cli.app import app


def commands(command, context, path=()):
    """Yield every command with its words, and the values that its arguments and options take."""
    parameters = command.get_params(context)
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option" and not each.is_flag]
    yield path, len(arguments), [option.opts[-1] for option in options]
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        with below.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            yield from commands(below, inner, (*path, name))


def listed():
    command = get_command(app)
    with command.make_context("edgetune", [], resilient_parsing=True) as context:
        return [each for each in commands(command, context) if each[0]]


@pytest.mark.parametrize(
    ("path", "arguments", "options"), [pytest.param(*each, id=" ".join(each[0])) for each in listed()]
)
def test_no_command_prints_hostile_words_as_they_are(edgetune_raw, path, arguments, options):
    lines = [[*path, EVERYTHING], [*path, f"--{EVERYTHING}"], [*path, "--help", EVERYTHING]]
    words = [EVERYTHING] * arguments
    lines += [[*path, *words, option, EVERYTHING] for option in options]
    for line in lines:
        ended = edgetune_raw(*line)
        assert ended.code in (0, 2, 3, 4), (line, ended.err)
        assert_harmless(ended.out + ended.err)
        if ended.code:
            assert_two_lines(ended, ended.code)


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("line", [("show",), ("profile",), ("device",), ("search", "--strategy"), ("no-such-command",)])
def test_each_sequence_alone_is_shown_as_an_escape(edgetune_raw, line, sequence):
    ended = edgetune_raw(*line, f"a{sequence}b")
    assert_two_lines(ended, 2)
    assert_harmless(ended.out + ended.err)
