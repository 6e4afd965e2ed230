"""From the options of ``edgetune search evaluate`` to its table, file and figure."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from edgetune.cli.choices import choose
from edgetune.cli.kept_files import check_outputs
from edgetune.cli.output import Target, choose_target
from edgetune.cli.screen import SIMULATED, Label, Screen, answer, print_lines, print_over
from edgetune.cli.stopping import STOPS, telling_kept
from edgetune.errors import InputError
from edgetune.units import format_duration, parse_share

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation, Run
    from edgetune.artifacts.header import Caution
    from edgetune.cli.evaluation_tables import Tables
    from edgetune.search.evaluation.board import Board, Progress
    from edgetune.search.evaluation.cases import Case
    from edgetune.search.evaluation.contenders import Contender
    from edgetune.search.evaluation.families import Family, GridName

FAMILIES = ("train", "infer", "train+infer", "infer+infer", "dynamic", "accuracy")
_SAMPLE = 5000
_TELL_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of the ``dynamic`` family, as written on the command line."""

    arrivals: str | None
    scale: str | None
    power: str
    latency: str


@dataclass(frozen=True, slots=True)
class Play:
    """What to evaluate and where it goes, as written on the command line."""

    tables: tuple[str, ...]
    family: str | None
    strategies: str
    grid: str | None
    sample: int | None
    everything: bool
    seeds: int
    noise: str
    tie: str
    by: str
    convergence: tuple[str, ...]
    traffic: Traffic
    jobs: int | None
    output: str | None
    plot: str | None
    json: bool


def carry_out(play: Play, screen: Screen) -> None:
    """Replay, print, and write what was asked for; stopped half-way, with what there is by then."""
    from edgetune.cli.evaluation_tables import read_tables
    from edgetune.drawing import require_figure
    from edgetune.search.evaluation.contenders import parse_contenders

    _check(play)
    contenders = parse_contenders(play.strategies)
    if play.plot is not None:
        require_figure(play.plot)
    target = choose_target(play.output, "evaluation.parquet", last=True, json=play.json)
    check_outputs({"-o": target.file, "--plot": play.plot}, [*play.tables, *play.convergence], {"-o": "evaluation"})
    tables = read_tables(play.tables)
    family = play.family or _family_of(tables)
    Label(tables.simulated and (play.json or target.path is None)).say()
    for caution in tables.cautions:
        screen.say(f"{caution.code}: {caution.advice}")
    if family == "dynamic":
        from edgetune.cli.run_replay import replay_all

        with telling_kept(screen, lambda: "nothing is kept: the table is written when all is replayed"):
            runs, conditions = replay_all(play, tables, contenders, screen)
        _give(play, target, _evaluation(tables, runs, conditions), screen)
        return
    board, conditions = _board(play, family, tables, contenders, screen)
    stopped: BaseException | None = None
    try:
        board.play(None if screen.quiet else _teller(screen))
    except BaseException as error:
        if not board.runs():
            if isinstance(error, STOPS):
                screen.say("stopped; nothing was replayed yet")
            raise
        stopped = error
        screen.say("stopped; this is what was replayed by then, and the same command starts over")
    cautions = () if stopped is None else (_stopped(board),)
    _give(play, target, _evaluation(tables, board.runs(), conditions, cautions), screen)
    if stopped is not None:
        raise stopped


def _check(play: Play) -> None:
    if play.family is not None:
        choose(play.family, FAMILIES, what="family")
    if play.grid is not None:
        choose(play.grid, ("fulcrum", "auto"), what="grid")
    choose(play.by, ("strategy", "workload"), what="grouping")
    if play.sample is not None and play.everything:
        raise InputError("--sample and --all exclude each other", "leave one of them out")
    if play.convergence and play.family != "accuracy":
        raise InputError("--convergence: only for problems of time to accuracy", "--family accuracy, or leave it out")
    if (play.traffic.arrivals or play.traffic.scale) and play.family != "dynamic":
        raise InputError("--arrivals and --scale: only for changing rates", "--family dynamic, or leave them out")


def _family_of(tables: Tables) -> str:
    tasks = sorted({subject.task for subject in tables.subjects})
    if len(tasks) == 1:
        return tasks[0]
    raise InputError("the tables have both training and inference", f"--family {' or '.join(FAMILIES[:4])}")


def _board(
    play: Play, family: str, tables: Tables, contenders: Sequence[Contender], screen: Screen
) -> tuple[Board, dict[str, Any]]:
    """Return what is to be played, and the conditions for the header."""
    import numpy as np

    from edgetune.cli.evaluation_tables import with_epochs
    from edgetune.search.evaluation.answering import require_solvers
    from edgetune.search.evaluation.board import Board, Conditions, truths
    from edgetune.search.evaluation.cases import cases_of, stratified

    grid, kind = cast("GridName | None", play.grid), cast("Family", family)
    subjects, epochs = (
        with_epochs(tables.subjects, play.convergence, screen) if family == "accuracy" else (tables.subjects, None)
    )
    cases = cases_of(subjects, kind, grid=grid, epochs=epochs)
    require_solvers(cases, list(contenders))
    best = truths(cases)
    solvable = [np.flatnonzero(each.rows >= 0) for each in best]
    once = all(contender.measures_once for contender in contenders)
    whole, count = sum(len(case.problems) for case in cases), sum(map(len, solvable))
    if count == 0:
        raise InputError(f"no {family} problem has a solution in these tables", "--grid auto suits any table")
    sample = play.sample if play.sample is not None or once or play.everything else _SAMPLE
    if sample is None or sample >= count:
        chosen = [np.arange(len(case.problems)) for case in cases]
    else:
        chosen = stratified(cases, solvable, sample, seed=0)
    conditions = Conditions(
        play.seeds, parse_share(play.noise, what="--noise"), parse_share(play.tie, what="--tie"),
        play.jobs or len(os.sched_getaffinity(0)),
    )  # fmt: skip
    replayed = count if sample is None else min(count, sample)
    for line in _counts(family, cases, whole, count, replayed):
        screen.say(line)
    told = {
        "family": family,
        "grids": sorted({case.grid for case in cases}),
        "problems": {"all": whole, "solvable": count, "replayed": replayed},
        "strategies": play.strategies,
        "seeds": play.seeds,
        "noise": conditions.noise,
        "tie": conditions.tie,
    }
    return Board(cases, best, chosen, contenders, conditions), told


def _counts(family: str, cases: list[Case], whole: int, solvable: int, replayed: int) -> list[str]:
    from edgetune.search.evaluation.families import PUBLISHED, STUDY_NETWORKS, STUDY_PAIRS

    study = [case for case in cases if case.grid == "fulcrum"]
    complete = len(study) == len(STUDY_PAIRS.get(family, STUDY_NETWORKS))
    published = f" (the study: about {PUBLISHED[family]:,})" if complete else ""
    parts = [f"{case.label} {len(case.problems):,}" for case in cases]
    line = f"{family}: {whole:,} problems{published}, {solvable:,} of them solvable; {replayed:,} are replayed"
    listed = [f"problems by workload: {', '.join(parts)}"] if len(cases) > 1 else []
    background = {case.background: case.problems.background_batch_size for case in cases if case.background}
    sizes = ", ".join(f"{name} {size}" for name, size in background.items())
    return [line, *listed, *([f"background batch sizes: {sizes}"] if background else [])]


def _teller(screen: Screen) -> Callable[[Progress], None]:
    """Return what tells how far it is now and then, with an estimate; over the last line on a terminal."""
    terminal = sys.stderr.isatty()
    last_s = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        ended = progress.done == progress.total
        if terminal and (ended or now_s - last_s > 0.2):
            print_over(_line(progress), last=ended)
        elif not terminal and not ended and now_s - last_s > _TELL_EVERY_S:
            screen.say(_line(progress))
        else:
            return
        last_s = now_s

    return tell


def _line(progress: Progress) -> str:
    left = format_duration(float(f"{progress.left_s:.2g}"))
    return f"{progress.done:,} of {progress.total:,} searches, about {left} left"


def _stopped(board: Board) -> Caution:
    from edgetune.artifacts.header import Caution

    done = sum(len(run.problem) for run in board.runs())
    return Caution("stopped-early", "the evaluation was stopped; run it again for the rest", {"rows": float(done)})


def _evaluation(
    tables: Tables, runs: list[Run], told: dict[str, Any], cautions: tuple[Caution, ...] = ()
) -> Evaluation:
    from edgetune.artifacts.evaluation import KIND, VERSION, Evaluation
    from edgetune.artifacts.header import Header

    device = {"device": ", ".join(tables.devices)} if tables.devices else {}
    conditions = {**device, "simulated": tables.simulated, **told}
    inputs = {"tables": list(tables.inputs)}
    header = Header.new(KIND, VERSION, inputs=inputs, conditions=conditions, warnings=(*tables.cautions, *cautions))
    return Evaluation(header, tuple(runs))


def _give(play: Play, target: Target, evaluation: Evaluation, screen: Screen) -> None:
    from edgetune.cli.evaluation_report import evaluation_answer, show_evaluation
    from edgetune.cli.plot import draw_kept

    try:
        target.write(evaluation)
        target.tell(screen)
    finally:  # a full disk does not cost the table
        if play.json:
            answer(evaluation_answer(evaluation, play.by))
        elif target.path is not None:
            if evaluation.header.simulated:
                print_lines(SIMULATED)
            show_evaluation(evaluation, play.by)
    draw_kept(evaluation, play.plot, screen, view=None, file=target.file)
