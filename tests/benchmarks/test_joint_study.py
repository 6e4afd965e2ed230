"""The rows of the study of joint batch sizes and clocks follow from the tables."""

import statistics

import joint_study
import numpy as np
import pytest

from edgetune.artifacts.profile import ProfileRow

CLOCKS = (300.0, 600.0, 900.0)


def row(network: str, size: int, mhz: float) -> ProfileRow:
    power_w = (2 if network == "mobilenet_v2" else 3) + 0.5 * size**0.5 + 6 * (mhz / 900) ** 3
    return ProfileRow(
        network,
        "train",
        size,
        (4 + size) / mhz,
        gpu_mhz=mhz,
        power_w=power_w,
        power_peak_w=power_w + 0.5,
        duration_s=10.0,
    )


ROWS = {
    name: [row(name, size, mhz) for size in sizes for mhz in CLOCKS] for name, sizes in joint_study.NETWORKS.items()
}
EPOCHS = {
    (proxy, dataset): {size: 1 + size / (32 + 8 * place) for size in joint_study.SIZES}
    for proxy, datasets in joint_study.EPOCHS.items()
    for place, (dataset, _) in enumerate(datasets)
}
STUDY = joint_study.Study(ROWS, EPOCHS, joint_study.limits(ROWS))


def test_limits_are_the_highest_peak_at_a_third_and_two_thirds_of_the_clock():
    highest = [
        max(row(name, max(ROWS[name], key=lambda r: r.batch_size).batch_size, mhz).power_peak_w for name in ROWS)
        for mhz in CLOCKS[:2]
    ]
    assert STUDY.limits_w == (*highest, None)


def test_every_table_and_figure_has_rows():
    rows = [*joint_study.table_rows(STUDY), *joint_study.figure_rows(STUDY), *joint_study.nano_rows()]
    names = " ".join(name for name, _, _ in rows)
    assert all(f"table {number}" in names for number in (2, 3, 4))
    assert all(f"fig {number}" in names for number in range(1, 9))
    assert all(theirs and ours for _, theirs, ours in rows)
    assert (
        dict((name, theirs) for name, theirs, _ in rows)["table 2, ResNet18, CINIC: baseline 1 / joint"]
        == "[1.95, 2.33, 1.94]"
    )


def test_nobody_beats_the_fastest_and_the_clock_of_the_baselines_suits_all():
    for limit_w, mhz in zip(STUDY.limits_w, CLOCKS, strict=True):
        found = joint_study.choices(STUDY, ("mobilenet_v2", "cnn"), "gratings", "shapes", limit_w)
        assert found.largest.row.gpu_mhz == found.fewest.row.gpu_mhz == mhz
        assert found.largest.row.batch_size == 64
        assert found.fewest.row.batch_size == 4
        assert found.fastest.time_s <= min(found.largest.time_s, found.fewest.time_s, found.ours.time_s)
        assert limit_w is None or found.ours.row.power_peak_w <= limit_w


def test_time_is_a_constant_and_a_share_of_the_clock_on_the_published_nano():
    ((_, theirs, ours),) = joint_study.nano_rows()
    assert theirs == "8204 s"
    assert ours.startswith("8227 s")


def test_drawn_images_are_the_same_each_time_and_have_every_label(tmp_path):
    (tmp_path / "again").mkdir()
    one, two = (np.load(joint_study.gratings(folder)) for folder in (tmp_path, tmp_path / "again"))
    assert one["x"].shape == (4096, 1, 16, 16)
    assert one["x_test"].shape == (1024, 1, 16, 16)
    assert sorted(set(one["y"])) == sorted(set(one["y_test"])) == list(range(8))
    assert all(np.array_equal(one[name], two[name]) for name in ("x", "y", "x_test", "y_test"))


@pytest.mark.skipif(not joint_study.ZEUS.is_dir(), reason="no folder of public measurements beside this one")
@pytest.mark.parametrize("objective", ["time", "energy"])
def test_chosen_by_proxy_within_five_per_cent_of_the_best_in_the_mean(objective):
    found = list(joint_study.zeus_cases(joint_study.ZEUS, objective))
    assert len(found) > 1000
    assert {(case.gpu, case.dataset) for case in found} == {
        (gpu, dataset) for gpu in joint_study.GPUS for dataset in joint_study.PROXY_OF
    }
    assert statistics.fmean(case.lost for case in found) <= 0.05
    faster = [
        case.comparison.times_faster(case.comparison.largest_batch)
        for case in found
        if case.comparison.largest_batch is not None
    ]
    assert objective == "energy" or statistics.fmean(faster) > 1
    assert all(case.lost >= -1e-9 for case in found)
    assert all(case.budget_w is None or case.comparison.answer.row.power_w <= case.budget_w for case in found)
