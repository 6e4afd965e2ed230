"""The noise scale of gradients against a network whose true gradient and noise are known."""

import pytest

import edgetune

torch = pytest.importorskip("torch")

PART = 8


def parts(count: int, gradient: float, deviation: float, seed: int = 0):
    """Yield mean losses w . x over parts: the gradient of a sample is x, normal around ``gradient`` in each of 50."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = gradient + deviation * torch.randn(PART, 50, generator=generator)
        yield (x @ WEIGHTS).mean()


WEIGHTS = torch.nn.Parameter(torch.zeros(50))


@pytest.mark.parametrize(("gradient", "deviation"), [(1.0, 2.0), (0.5, 3.0)])
def test_it_is_the_variance_of_a_sample_over_the_squared_gradient(gradient, deviation):
    found = edgetune.gradient_noise_scale([WEIGHTS], parts(400, gradient, deviation), samples=PART)
    assert found == pytest.approx(deviation**2 / gradient**2, rel=0.1)
    assert WEIGHTS.grad is None


def test_frozen_and_unused_weights_are_left_aside():
    frozen, unused = torch.nn.Parameter(torch.zeros(3), requires_grad=False), torch.nn.Parameter(torch.zeros(3))
    several = [frozen, WEIGHTS, unused]
    assert edgetune.gradient_noise_scale(several, parts(400, 1.0, 2.0), samples=PART) == pytest.approx(4.0, rel=0.1)
