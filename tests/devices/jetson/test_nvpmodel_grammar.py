"""The grammar of power-mode configurations: what boards ship, what people write into it, and what it refuses."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetune.devices.jetson.nvpmodel_grammar import (
    UNCAPPED,
    NvpmodelConfiguration,
    NvpmodelSetting,
    Param,
    PowerModel,
    parse_configuration,
)
from edgetune.errors import InputError

DECLARED = """\
# FORMAT:
# < PARAM TYPE=PARAM_TYPE NAME=PARAM_NAME >
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_1 /sys/devices/system/cpu/cpu1/online

< PARAM TYPE=CLOCK NAME=GPU >
MAX_FREQ /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq
MAX_FREQ_KNEXT /sys/devices/platform/17000000.gpu/devfreq_dev/max_freq

<PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ\t/sys/kernel/nvpmodel_emc_cap/emc_iso_cap
"""
MODE = "< POWER_MODEL ID=0 NAME=MAXN >\n"


def parse(text, declared=DECLARED):
    return parse_configuration(declared + text, "test.conf")


def refused(text, declared=DECLARED):
    """The message with which a text is refused, which must name a line of it."""
    with pytest.raises(InputError) as caught:
        parse(text, declared)
    number = int(re.match(r"test\.conf, line (\d+): ", caught.value.message)[1])
    assert 1 <= number <= (declared + text).count("\n") + 1
    assert caught.value.hint
    return caught.value.message


def test_of_two_paths_the_one_that_this_kernel_has_is_used():
    gpu = parse(MODE).params["GPU"]
    old, new = gpu.declared("MAX_FREQ")
    assert gpu.arguments == ("MAX_FREQ",)
    assert gpu.path_of("MAX_FREQ", {new}.__contains__) == new
    assert gpu.path_of("MAX_FREQ", {old, new}.__contains__) == old
    assert gpu.path_of("MAX_FREQ", set().__contains__) is None
    assert gpu.path_of("MIN_FREQ", {old, new}.__contains__) is None


def test_the_default_may_be_given_by_name():
    assert parse(f"{MODE}< PM_CONFIG DEFAULT=MAXN >\n").default == 0


def test_a_name_that_is_declared_nowhere_is_noted_as_nvpmodel_ignores_it():
    found = parse(f"{MODE}CPU_A99 MAX_FREQ 5\nGPU LOW_FREQ 5\n")
    line = (DECLARED + MODE).count("\n") + 1
    assert found.notes == (
        f"test.conf, line {line}: CPU_A99 MAX_FREQ is declared nowhere above: ignored",
        f"test.conf, line {line + 1}: GPU LOW_FREQ is declared nowhere above: ignored",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{MODE}GPU MAX_FREQ fast\n", "'fast' is not a whole number"),
        (f"{MODE}GPU MAX_FREQ -2\n", "GPU MAX_FREQ cannot be -2"),
        (f"{MODE}GPU MAX_FREQ 1 2\n", "GPU MAX_FREQ takes one number"),
        (f"{MODE}GPU MAX_FREQ\n", "a setting is a name, an argument and a value"),
        (f"{MODE}{MODE}", "a second mode has ID=0"),
        ("< POWER_MODEL NAME=MAXN >\n", "the section lacks ID="),
        ("< POWER_MODEL ID=0 NAME=MAXN\n", "a section begins < KIND NAME=VALUE >"),
        ("< POWER_MODEL ID=0 NAME=TWO WORDS >\n", "'WORDS' is not NAME=VALUE"),
        ("< POWER_BUDGET W=15 >\n", "there is no section POWER_BUDGET"),
        ("< PARAM TYPE=GUESS NAME=X >\n", "TYPE=GUESS is none of FILE, CLOCK, HWMON"),
        (f"{MODE}< PM_CONFIG >\n", "the section lacks DEFAULT="),
        (f"{MODE}< PM_CONFIG DEFAULT=0 >\nGPU MAX_FREQ 1\n", "this line belongs to no section"),
        ("", "the file ends without any POWER_MODEL"),
    ],
)
def test_a_malformed_line_is_told_by_file_and_number(text, message):
    assert refused(text).endswith(f": {message}")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("< PARAM TYPE=CLOCK NAME=X >\nMAX_FREQ /sys/devices/gpu        .0/max\n", "a CLOCK is declared by"),
        ("< PARAM TYPE=HWMON NAME=X >\nWARN /sys/hwmon\n", "a HWMON is declared by a name and a folder and a file"),
        ("< POWER_MODEL ID=7 NAME=LOW >\nGPU MAX_FREQ fast\n", "the mode LOW is left out"),
        ("< PM_CONFIG DEFAULT=7 >\n", "the default 7 is no mode that can be read"),
    ],
)
def test_one_bad_line_loses_no_more_than_what_it_is_of(text, note):
    found = parse(f"{MODE}GPU MAX_FREQ 5\n{text}")
    assert [model.name for model in found.models] == ["MAXN"]
    assert len(found.notes) == 1
    assert note in found.notes[0]


def test_a_line_before_the_first_section_is_refused():
    assert refused("CORE_0 1\n", declared="").endswith("line 1: this line stands before the first section")


@pytest.mark.parametrize("text", [f"{MODE}/sys/devices/system/cpu/cpu1/online 0\n", "/sys/kernel/x 1\n"])
def test_the_format_of_2017_is_named(text):
    assert "older format of L4T R28" in refused(text, declared="")


NAMES = st.from_regex(r"[A-Z0-9_]{1,12}", fullmatch=True)
ARGUMENTS = NAMES.filter(lambda name: not name.endswith("_KNEXT"))
PATHS = st.from_regex(r"/[a-z0-9./_@-]{0,30}", fullmatch=True)
BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def configurations(draw):
    """A configuration, and one of the many texts that say it."""
    blank = lambda: draw(BLANKS)  # noqa: E731
    comment = lambda: draw(st.sampled_from(["", " # -1 < not a section >", "#", "\n\n", "\r"]))  # noqa: E731
    params, lines = {}, []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        kind = draw(st.sampled_from(["FILE", "CLOCK", "HWMON"]))
        lines.append(
            f"<{draw(st.sampled_from(['', ' ', '  ']))}PARAM{blank()}TYPE={kind}{blank()}NAME={name}{blank()}>"
        )
        paths = draw(st.dictionaries(ARGUMENTS, PATHS, min_size=1, max_size=3))
        for argument, path in paths.items():
            lines.append(f"{argument}{blank()}{path}" + (f"{blank()}curr1_max" if kind == "HWMON" else ""))
        if kind == "HWMON":
            paths = {argument: f"{path}/hwmon*/curr1_max" for argument, path in paths.items()}
        params[name] = Param(name, kind, paths)
    models = []
    for identity in draw(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True)):
        name, settings = draw(NAMES), []
        lines.append(f"< POWER_MODEL{blank()}ID={identity} NAME={name} >")
        for param in draw(st.lists(st.sampled_from(list(params.values())), max_size=5)):
            argument = draw(st.sampled_from(list(param.paths)))
            if param.kind == "FILE":
                value = text = draw(st.sampled_from(["0", "1", "on", "auto"]))
            else:
                number = draw(st.integers(-1, 4_266_000_000))
                value, text = (UNCAPPED if number == -1 else number), str(number)
            settings.append(NvpmodelSetting(param.name, argument, value))
            lines.append(f"{param.name}{blank()}{argument}{blank()}{text}")
        models.append(PowerModel(identity, name, tuple(settings)))
    default = draw(st.sampled_from(models)).id
    lines.append(f"< PM_CONFIG DEFAULT={default} >")
    first_named = next(model.id for model in models if str(default) in (model.name, str(model.id)))
    text = "\n".join(draw(BLANKS) * draw(st.booleans()) + line + comment() for line in lines)
    return NvpmodelConfiguration(params, tuple(models), first_named), text


@given(configurations())
def test_every_way_of_writing_a_configuration_reads_as_what_it_says(written):
    configuration, text = written
    assert parse_configuration(text) == configuration


SECTIONS = ["< PARAM TYPE=CLOCK NAME=GPU >", "< POWER_MODEL ID=0 NAME=A >", "< PM_CONFIG DEFAULT=0 >", "<PARAM"]
LINES = ["GPU MAX_FREQ 5", "MAX_FREQ /a", "/sys/x 1", "ID=", "NAME=A", "-1", "９"]
MARKS = ["<", ">", "=", "#", " ", "\t", "\n", "\0", "\x85", "\u2028"]
FRAGMENTS = st.sampled_from(SECTIONS + LINES + MARKS)


@example("< POWER_MODEL ID=99999999999999999999999 NAME=A >")
@example("< POWER_MODEL ID=-1 NAME=A >\n")
@given(st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=30).map("".join)))
def test_any_text_is_a_configuration_or_a_line_to_blame(text):
    try:
        found = parse_configuration(text, "any.conf")
    except InputError as error:
        message = error.message
    else:
        assert found.models
        return
    number = re.match(r"any\.conf, line (\d+): .", message)
    assert 1 <= int(number[1]) <= text.count("\n") + 1
    assert "\n" not in message
