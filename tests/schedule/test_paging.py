"""What paging costs, and parameters found again from times that were made with them."""

import random

import pytest

from benchmarks.paging_fit import Observation, fit_paging
from edgetune.stages.schedule.machine import FITS, Paging

MB = 10**6


def observation(paging, held, limit, touched, *, noise=0.0):
    extra_s = paging.extra_s(touched, held, limit) * (1 + noise)
    return Observation(held, limit, touched, 0.1, 0.1 + extra_s)


def test_the_share_that_is_gone_is_read_again():
    paging = Paging(s_per_byte=1e-6, thrash=1)
    assert paging.extra_s(100, 1000, 1000) == 0
    assert paging.extra_s(100, 2000, 1000) == pytest.approx(50e-6)
    assert Paging(1e-6, thrash=1.5).extra_s(100, 2000, 1000) == pytest.approx(75e-6)
    assert Paging(1e-6, thrash=3).extra_s(100, 2000, 1000) == pytest.approx(100e-6), "no more than all"
    assert paging.extra_s(0, 2000, 1000) == 0
    assert FITS.extra_s(10**9, 10**9, 1) == 0


@pytest.mark.parametrize("paging", [Paging(4e-9, 1.0), Paging(1e-8, 2.5), Paging(2e-9, 9.9)])
def test_parameters_are_found_again(paging):
    held = [520 * MB, 560 * MB, 700 * MB, 900 * MB]
    fitted = fit_paging([observation(paging, each, 512 * MB, touched) for each in held for touched in (MB, 90 * MB)])
    assert fitted.s_per_byte == pytest.approx(paging.s_per_byte)
    assert fitted.thrash == pytest.approx(paging.thrash)


def test_where_something_is_always_found_in_memory_the_time_per_byte_takes_all():
    seen = [observation(Paging(1e-8, 2.0), held, 512 * MB, MB) for held in (520 * MB, 600 * MB)]
    fitted = fit_paging(seen)
    assert (fitted.s_per_byte, fitted.thrash) == (pytest.approx(2e-8), 1.0)


def test_noise_moves_them_little():
    draw, paging = random.Random(1), Paging(1e-8, 2.0)
    seen = [
        observation(paging, draw.randint(500, 1500) * MB, 512 * MB, draw.randint(1, 200) * MB, noise=draw.gauss(0, 0.1))
        for _ in range(200)
    ]
    fitted = fit_paging(seen)
    assert fitted.s_per_byte == pytest.approx(1e-8, rel=0.1)
    assert fitted.thrash == pytest.approx(2.0, abs=0.2)


def test_a_limit_makes_nothing_faster():
    assert fit_paging([Observation(900, 500, 100, 0.2, 0.1)]).s_per_byte == 0


def test_where_everything_fits_there_is_nothing_to_fit():
    with pytest.raises(ValueError, match="no observation of more being held than fits"):
        fit_paging([Observation(400, 500, 100, 0.1, 0.1), Observation(600, 500, 0, 0.1, 0.1)])
