"""How many launches tasks come to, told before anything is run."""

import pytest
from kernel_scenes import GPU, call, task

from edgetune import limits
from edgetune.errors import InputError
from edgetune.stages.elastic.tasks import about_launches, check_count


def test_requests_at_a_rate_come_to_all_of_their_kernels(tmp_path):
    for arrivals in ("uniform:50/s", "poisson:50/s"):
        assert about_launches(task("a", call(), call(), arrivals=arrivals), GPU, duration_s=3.0) == 2 * 50 * 3
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s\n0\n1\n2\n")  # three requests in three seconds, over again
    assert about_launches(task("a", call(), arrivals=f"trace:{trace}"), GPU, duration_s=12.0) == pytest.approx(12)
    trace.write_text("arrival_s\n0\n0\n")  # once
    assert about_launches(task("a", call(), arrivals=f"trace:{trace}"), GPU, duration_s=12.0) == 2


def test_a_closed_loop_is_as_fast_as_its_kernels_follow_each_other():
    slow, quick = call(blocks=2, block_us=1000), call(blocks=2, block_us=0.1)
    assert about_launches(task("a", slow), GPU, duration_s=1.0) == pytest.approx(1000, rel=0.01)
    assert about_launches(task("a", quick), GPU, duration_s=1.0) == pytest.approx(1 / 7e-6, rel=0.01)  # by the host
    clients = task("a", slow, arrivals="closed:10000")
    assert about_launches(clients, GPU, duration_s=1.0) == pytest.approx(11_000, rel=0.01)
    assert about_launches(task("a", slow), None, duration_s=1e9) == 1


def test_more_than_can_be_kept_is_refused_critical_tasks_counted_once_more():
    rate = limits.limit("simulated_launches") // 3 + 1
    most = [
        task("often", call(), arrivals=f"uniform:{rate}/s", priority=1),
        task("seldom", call(), arrivals="uniform:1/s"),
    ]
    check_count(most, ["elastic"], GPU, duration_s=1.0)
    with pytest.raises(
        InputError,
        match=r"task often: .*uniform:20001/s, 1 kernel, 1 s.* more than the limit simulated_launches allows",
    ):
        check_count(most, ["elastic", "sequential"], GPU, duration_s=1.0)


def test_a_kernel_longer_than_any_runs_is_refused():
    with pytest.raises(InputError, match=r"task a: kernel .* takes about 1e"):
        check_count([task("a", call(block_us=1e19))], ["elastic"], GPU, duration_s=1.0)
