"""Rows of artifacts as people read them."""

from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.cli.sections import TextSection, print_artifact


def show_profile_rows(rows, most=0):
    print_artifact(Profile(Header("profile", 1, "", ""), tuple(rows)), TextSection(most=most))


def show_trace_rows(rows):
    print_artifact(Trace(Header("trace", 1, "", ""), tuple(rows)), TextSection())


def row(gpu_mhz, **figures):
    return ProfileRow("net", "train", 16, cpu_cores=1, gpu_mhz=gpu_mhz, device="board", minibatch_s=0.2, **figures)


def test_values_common_to_all_rows_are_printed_once(capsys):
    show_profile_rows([row(300.0), row(900.0, minibatch_ci95_low_s=0.19, minibatch_ci95_high_s=0.21, power_w=12.0)])
    first, energy, columns, *rows = capsys.readouterr().out.splitlines()
    assert first == "net train on board, batch 16, 1 core"
    assert energy == "energy: power times time, where the table has none"
    assert columns.split() == ["gpu_mhz", "minibatch", "ci95", "power", "energy", "timed"]
    assert [line.split() for line in rows] == [
        ["300", "200", "ms", "-", "-", "-", "-"],
        ["900", "200", "ms", "+-5.0%", "12.0", "W", "2.40", "J", "-"],
    ]


def test_reasons_of_missing_figures_are_printed_once_below_the_rows(capsys):
    show_profile_rows([row(300.0, reason="no power: no sensor"), row(900.0, reason="no power: no sensor")])
    assert capsys.readouterr().out.count("note: no power: no sensor\n") == 1


def test_a_failed_row_says_why(capsys):
    show_profile_rows([row(300.0), replace(row(900.0), status="failed", reason="crashed")])
    _, columns, good, bad = capsys.readouterr().out.splitlines()
    assert (columns.split()[-1], good.split()[-1]) == ("status", "ok")
    assert bad.endswith("failed: crashed")


def test_the_first_rows_of_a_table_do_not_speak_for_the_others(capsys):
    whole = [row(300.0), row(300.0, power_limit_w=20.0), row(900.0)]
    show_profile_rows(whole, most=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["gpu_mhz", "power_limit_w"]
    assert lines[3:] == ["... and 2 more rows (--rows 0 prints all)"]


@pytest.mark.parametrize(
    ("feasible", "text"), [(True, "drawn"), (False, "over budget; drawn"), (None, "cannot tell; drawn")]
)
def test_a_step_says_why_and_whether_it_would_do(capsys, feasible, text):
    show_trace_rows([TraceRow(1, "net", "train", 16, gpu_mhz=300.0, objective=80.0, feasible=feasible, reason="drawn")])
    first, _, line = capsys.readouterr().out.splitlines()
    assert first == "net train, batch 16, GPU 300 MHz"
    assert line.endswith(f"80  {text}")


def test_no_rows_are_said_to_be_none(capsys):
    show_trace_rows([])
    assert capsys.readouterr().out == "no rows\n"


def test_answers_of_a_server_have_tables_of_their_own(capsys):
    answers = {"ttft_s": 0.3, "token_s": 0.05, "own_ttft_s": 0.29, "output_tokens": 8.0, "tokens_per_s": 640.0}
    show_profile_rows([row(300.0, **answers, energy_j=3.2), row(900.0, tokens_per_s=80.0, bunched_share=1.0)])
    times, rates = capsys.readouterr().out.split("answers: ")[1].split("gpu_mhz")[1:]
    assert [line.split() for line in times.splitlines()] == [
        ["ttft", "own", "ttft", "token", "bunched"],
        ["300", "300", "ms", "290", "ms", "50.0", "ms", "-"],
        ["900", "-", "-", "-", "100%"],
    ]
    assert [line.split() for line in rates.splitlines()[:3]] == [
        ["requests/s", "tokens/s", "energy/request", "energy/token"],
        ["300", "80", "640", "200", "mJ", "25.0", "mJ"],
        ["900", "80", "80", "-", "-"],
    ]
