"""Networks that nobody trained have the shape that was asked for."""

import random

import pytest

from edgetune.errors import InputError
from edgetune.stages.schedule.generate import FORMS, Distribution, NetworkDesign, generate, parse_distribution

FIXED = Distribution(8.0, 8.0)


def design(form, layers=(6, 6), width=3, **more):
    return NetworkDesign(form, layers, width, FIXED, FIXED, FIXED, FIXED, **more)


def readings(form, layers=6, width=3):
    (network,) = generate(design(form, (layers, layers), width), 1, seed=0)
    return [layer.after for layer in network.layers]


def test_shapes():
    assert readings("chain", 4) == [(), (0,), (1,), (2,)]
    assert readings("fan", 9, 3) == [(), (0,), (0,), (0,), (1, 2, 3), (4,), (4,), (4,), (5, 6, 7)]
    assert readings("branches", 8, 3) == [(), (0,), (0,), (0,), (1,), (2,), (3,), (4, 5, 6)]
    assert readings("branches", 2, 3) == [(), (0,)]
    assert readings("branches", 1, 3) == readings("fan", 1, 1) == [()]
    shortcuts = readings("skips", 60)
    assert all(index - 1 in after and len(after) <= 2 for index, after in enumerate(shortcuts) if index)
    assert 5 < sum(len(after) == 2 for after in shortcuts) < 30


@pytest.mark.parametrize("form", FORMS)
def test_every_layer_reads_earlier_ones(form):
    for network in generate(design(form, (1, 30), 4), 40, seed=1):
        for index, layer in enumerate(network.layers):
            assert list(layer.after) == sorted(set(layer.after))
            assert all(before < index for before in layer.after)
            assert bool(layer.after) == bool(index)


def test_the_same_seed_makes_the_same_and_more_networks_change_none():
    drawn = NetworkDesign("chain", (2, 9), 1, Distribution(1, 99), FIXED, FIXED, Distribution(1, 9, True))
    assert generate(drawn, 3, seed=5) == generate(drawn, 5, seed=5)[:3] != generate(drawn, 3, seed=6)


def test_storage_says_how_long_loads_take():
    (network,) = generate(design("chain", load_bytes_per_s=4.0), 1, seed=0)
    assert {layer.load_s for layer in network.layers} == {2.0}
    (timed,) = generate(design("chain", load_s=Distribution(0.5, 0.5)), 1, seed=0)
    assert {layer.load_s for layer in timed.layers} == {0.5}


def test_drawn_values_are_within_their_range_and_spread():
    rng = random.Random(0)
    for logarithmic, middle in ((False, 50.5), (True, 10.0)):
        drawn = sorted(Distribution(1.0, 100.0, logarithmic).draw(rng) for _ in range(4001))
        assert drawn[0] >= 1.0
        assert drawn[-1] <= 100.0
        assert drawn[2000] == pytest.approx(middle, rel=0.1)  # the median


def test_distributions_in_words():
    assert parse_distribution("8MiB", what="x", of="bytes") == Distribution(8 * 2**20, 8 * 2**20)
    assert parse_distribution("uniform:1ms:2s", what="x", of="time") == Distribution(0.001, 2.0)
    assert parse_distribution("log:1KiB:1MiB", what="x", of="bytes") == Distribution(1024, 2**20, True)
    assert parse_distribution("0", what="x", of="bytes") == Distribution(0.0, 0.0)


@pytest.mark.parametrize("words", ["normal:1ms:2ms", "uniform:1ms", "log:2ms:1ms", "log:0:1s", "uniform:x:1ms", "-3ms"])
def test_other_words_are_refused(words):
    with pytest.raises(InputError, match="--execute"):
        parse_distribution(words, what="--execute", of="time")
