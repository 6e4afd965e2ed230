"""``edgetune schedule run`` when somebody asks it to stop."""

import signal

from edgetune.artifacts import io
from edgetune.artifacts.timeline import Timeline
from edgetune.stages.schedule.policies.classic import FirstComeFirstServed

COSTS = """network,layer,kind,weight_bytes,output_bytes,load_s,execute_s
faces,conv1,conv,1000000,100000,0.010,0.020
faces,fc6,fc,30000000,1000,0.300,0.010
"""
JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.csv}}
jobs: [{name: photos, networks: [faces], arrivals: periodic:100ms, count: 1000}]
"""


def test_a_signal_ends_a_simulation_between_events_and_what_there_was_is_written(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "costs.csv").write_text(COSTS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    real, asked = FirstComeFirstServed.choose, []

    def interrupted(self, view):
        asked.append(view.now_ns)
        if len(asked) == 20:
            signal.raise_signal(signal.SIGINT)
        return real(self, view)

    monkeypatch.setattr(FirstComeFirstServed, "choose", interrupted)
    ended = edgetune("schedule", "run", "jobs.yaml", "--simulate", "--policy", "fcfs,bulk", "-o", "t.parquet")
    assert ended.code == 128 + signal.SIGINT
    assert len(asked) < 30
    rows = io.read(Timeline, "t.parquet").rows
    assert {row.policy for row in rows} == {"fcfs"}
    assert {row.reason for row in rows if row.status == "abandoned"} == {"the run was stopped"}
