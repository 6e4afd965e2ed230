"""The scenarios under ``examples``: documents that can be read, of networks that there are."""

from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.jobs import Jobs
from edgetune.stages.schedule.jobs import requests_of
from edgetune.workloads.zoo import NETWORKS

FOLDER = Path(__file__).parents[2] / "examples" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))
BATCH = {"small-3": 3, "mixed-3": 3, "large-3": 3, "lifelogging-5": 5, "all": 9}
INTENSITIES = ("0.8", "1.0", "1.2")


def requests(path: Path):
    jobs = io.read(Jobs, str(path))
    return jobs, requests_of(jobs.jobs, {network.name: 2.0 for network in jobs.networks}, seed=jobs.seed)


def test_every_scenario_of_the_study_is_there():
    kinds = ("stochastic-fixed", "stochastic-uniform", "stochastic-composition", "stochastic-all-random", "agenet-3")
    stochastic = {f"{kind}-{intensity}" for kind in kinds for intensity in INTENSITIES}
    one_by_one = {f"{kind}-{name}" for kind in ("closed", "deadline") for name in BATCH if name != "all"}
    assert {path.stem for path in FILES} == set(BATCH) | stochastic | one_by_one


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_networks_are_those_of_the_zoo_and_the_table_in_the_readme_names_the_file(path):
    jobs = io.read(Jobs, str(path))
    assert {network.model for network in jobs.networks} <= {f"zoo:{name}" for name in NETWORKS}
    assert all(network.model == f"zoo:{network.name.partition('-')[0]}" for network in jobs.networks)
    assert (jobs.memory_bytes, jobs.workers) == (512 * 2**20, 2)
    listed = (FOLDER / "README.md").read_text()
    kind, _, ending = path.stem.partition("-") if path.stem.startswith(("closed", "deadline")) else (
        path.stem.rpartition("-")
    )  # fmt: skip
    assert f"`{path.name}`" in listed or (f"`{kind}-" in listed and f"`-{ending}`" in listed)


@pytest.mark.parametrize(("name", "count"), BATCH.items())
def test_a_batch_is_150_images_at_once_for_every_network(name, count):
    jobs, found = requests(FOLDER / f"{name}.yaml")
    assert len(jobs.networks) == count
    assert len(found) == 150 * count
    assert {request.arrival_ns for request in found} == {0}


@pytest.mark.parametrize("intensity", INTENSITIES)
@pytest.mark.parametrize(("kind", "each"), [("fixed", 5), ("uniform", 1)])
def test_gaps_are_what_an_arrival_takes_divided_by_the_intensity(kind, each, intensity):
    _, found = requests(FOLDER / f"stochastic-{kind}-{intensity}.yaml")
    assert len(found) == 150 * each
    arrivals = sorted({request.arrival_ns for request in found})
    gaps_s = [(later - earlier) / 1e9 for earlier, later in pairwise(arrivals)]
    # Within three standard errors: 3 x 0.25 / sqrt(149).
    assert mean(gaps_s) == pytest.approx(2.0 * each / float(intensity), rel=0.06)
