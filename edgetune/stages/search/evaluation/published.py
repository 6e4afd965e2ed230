"""Figures that Fulcrum (2025) prints of its strategies: medians and solved shares, to hold against those of a table.

Medians are of the excess over the optimum, in per cent: time of a minibatch in training, latency in inference, lost
throughput of the background in pairs. Sections 7.1 to 7.3 and 7.5; figures 9, 10, 11 and 14. What a text does not print
is absent. Its board, its power meter and its networks are not those of another table: only the order of strategies, and
the order of size, can agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.stages.search.evaluation.problems import STUDY_NETWORKS
from edgetune.stages.search.evaluation.results import merits

STUDY_STRATEGIES: Mapping[str, Mapping[str, str]] = {
    "train": {
        "gmd": "gmd-study:10", "als": "als-study:50", "rnd50": "random-study:50", "rnd250": "random-study:250",
        "nn250": "nn-study:250",
    },
    "infer": {
        "gmd": "gmd-study:11", "als": "als-study:145", "rnd150": "random-study:150", "rnd250": "random-study:250",
        "nn250": "nn-study:250",
    },
    "train+infer": {
        "gmd": "gmd-study:30", "als": "als-study:290", "rnd150": "random-study:180", "rnd250": "random-study:300",
        "nn250": "nn-study:300",
    },
}  # fmt: skip
"""edgetune's names and budgets of the study's strategies. Of pairs both halves count: 15 modes are 30 measurements, 50
modes with five batch sizes and a background are 300."""

MEDIANS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "train": {
        "resnet": {"gmd": 8.8, "als": 3.9, "rnd50": 14.8, "rnd250": 0.7, "nn250": 5.0},
        "mobilenet": {"gmd": 3.4, "als": 0.0, "rnd50": 8.5, "rnd250": 0.0},
        "yolo": {"gmd": 3.4, "als": 0.0, "rnd50": 13.8, "rnd250": 0.0},
        "bert": {"als": 0.1, "rnd50": 0.5, "rnd250": 0.0},
        "lstm": {"gmd": 2.6, "als": 1.8, "rnd50": 8.1, "rnd250": 0.0, "nn250": 1.5},
    },
    "infer": {
        "resnet": {"gmd": 5.1, "als": 5.7, "rnd150": 12.8, "rnd250": 7.0, "nn250": 12.0},
        "mobilenet": {"gmd": 7.9, "als": 0.6, "rnd150": 15.2, "rnd250": 0.9, "nn250": 0.9},
        "yolo": {"gmd": 3.8, "rnd150": 13.7},
        "bert": {"gmd": 9.5, "als": 0.0, "rnd150": 16.3, "rnd250": 13.5, "nn250": 14.3},
        "lstm": {"gmd": 0.9, "als": 0.0, "rnd150": 15.3, "rnd250": 15.0, "nn250": 15.0},
    },
    "train+infer": {
        "mobilenet+lstm": {"gmd": 0.0, "als": 0.0, "rnd250": 0.0, "nn250": 14.3},
        "mobilenet+mobilenet": {"gmd": 0.0, "als": 0.0, "rnd250": 0.0, "nn250": 16.7},
        "resnet+mobilenet": {"gmd": 10.0, "als": 7.1, "rnd150": 14.3, "rnd250": 14.3, "nn250": 18.2},
        "resnet+bert": {"gmd": 12.5, "rnd150": 12.5, "rnd250": 12.5, "nn250": 20.0},
        "yolo+resnet": {"als": 25.0, "rnd250": 33.3, "nn250": 50.0},
    },
    "infer+infer": {
        "resnet+mobilenet": {"gmd": 12.5, "als": 7.7},
        "resnet+bert": {"als": 9.1},
    },
}  # fmt: skip
"""Medians by family, by workload (of pairs the background first) and by strategy. Where the study's text of MobileNet's
training gives RND50 14.8 % beside ALS and 8.5 % beside GMD, the latter is taken: the former is ResNet's."""

SOLVED: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "infer": {
        "all": {"als": 96.0, "gmd": 85.0, "rnd150": 95.0},
        "resnet": {"rnd250": 97.4, "nn250": 88.4},
    },
    "train+infer": {"all": {"als": 95.0, "gmd": 93.0}},
}
"""Solved problems in per cent, as "more than" (gmd, als), or about."""


@dataclass(frozen=True, slots=True)
class BesidePublished:
    """One strategy on one workload: published figures beside those of an evaluation, in per cent; ``None`` is unknown.

    Args:
        workload: In the study's words; ``all`` for all workloads of the family together.
        strategy: In the study's words, e.g. ``rnd150``.
        theirs, ours: Median excess of the solved problems.
        solved_theirs, solved_ours: Share of the solvable problems that were solved.
        points: Mean number of measurements of ours.
    """

    workload: str
    strategy: str
    theirs: float | None
    ours: float | None
    solved_theirs: float | None
    solved_ours: float
    points: float


def study_contenders(family: str) -> str:
    """Return the study's strategies for a family, as ``--strategies`` takes them; infer+infer as train+infer."""
    return ",".join(STUDY_STRATEGIES.get(family, STUDY_STRATEGIES["train+infer"]).values())


def beside_published(runs: Sequence[EvaluationRun]) -> list[BesidePublished]:
    """Return the published figures beside those of runs, for workloads and strategies of the study.

    ``nn-study`` answers from predictions, as in the study. An answer that breaks a budget is not solved.
    """
    family = runs[0].family if runs else ""
    wanted = {ours: theirs for theirs, ours in STUDY_STRATEGIES.get(family, STUDY_STRATEGIES["train+infer"]).items()}
    of_study = [
        (theirs, run)
        for run in runs
        if (theirs := wanted.get(run.contender.replace("-predicted", "")))
        and (not run.strategy.startswith("nn-study") or run.strategy.endswith("-predicted"))
    ]
    found = []
    for workload in (*MEDIANS.get(family, {}), "all"):
        for theirs in dict.fromkeys(name for name, _ in of_study):
            some = [run for name, run in of_study if name == theirs and workload in (study_label(run), "all")]
            if not some:
                continue
            (merit,) = merits(some, lambda run: run.family)
            found.append(
                BesidePublished(
                    workload,
                    theirs,
                    MEDIANS[family].get(workload, {}).get(theirs),
                    None if merit.median != merit.median else 100 * merit.median,
                    SOLVED.get(family, {}).get(workload, {}).get(theirs),
                    merit.solved_percent,
                    merit.points,
                )
            )
    return found


def study_label(run: EvaluationRun) -> str:
    """Return the workload of a run in the study's words, of pairs the background first."""
    urgent = STUDY_NETWORKS["train" if run.family == "train" else "infer"].get(run.workload, run.workload)
    if run.background is None:
        return urgent
    task = STUDY_NETWORKS["infer" if run.family == "infer+infer" else "train"]
    return f"{task.get(run.background, run.background)}+{urgent}"
