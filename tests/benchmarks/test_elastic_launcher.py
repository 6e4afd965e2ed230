"""The command that compares launchers: that it works, not what it says."""

import sys

from elastic_launcher import main, reactions_s, replayed

from fakes.cuda_native import NativeLaunch


def test_it_prints_medians_and_ratios(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["elastic_launcher.py", "--turns", "1", "--duration", "0.2", "--block-us", "50"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[1:4]] == [
        "end of a kernel to launch, native", "end of a kernel to launch, python", "end of a kernel to launch"
    ]  # fmt: skip
    assert lines[3].startswith("end of a kernel to launch: python / native: median x")


def test_a_reaction_is_from_an_end_to_the_next_launch_before_the_next_end():
    def launch(launched_ns: int, ended_ns: int) -> NativeLaunch:
        return NativeLaunch("a", launched_ns, launched_ns, ended_ns, 0, 1, 1, 0)

    log = [launch(0, 1000), launch(1002, 3000), launch(2000, 4000), launch(4007, 5000)]
    assert reactions_s(log) == [2e-9, 7e-9]


def test_live_runs_of_random_tasks_are_replayed():
    assert sum(replayed(seed) for seed in range(6)) > 100
