"""Every policy keeps the promises of its kind."""

from contracts.schedule_contract import SchedulePolicyContract
from edgetune.stages.schedule.policies.request_order import PASSES


class TestBulk(SchedulePolicyContract):
    policy, keeps_budget = "bulk", False  # alone on the machine, it may be larger than the budget
    passes = 0


class TestLinear(SchedulePolicyContract):
    policy, passes = "linear", 0


class TestDeepEye(SchedulePolicyContract):
    policy, passes = "deepeye", 0


class TestDeepEyeAsInTheThesis(SchedulePolicyContract):
    policy, keeps_budget = "deepeye:greedy", False


class TestPartial(SchedulePolicyContract):
    policy = "partial"


class TestFirstComeFirstServed(SchedulePolicyContract):
    policy = "fcfs"


class TestShortestJobFirst(SchedulePolicyContract):
    policy = "sjf"


class TestShortestNetworkFirst(SchedulePolicyContract):
    policy = "snf"


class TestRoundRobin(SchedulePolicyContract):
    policy = "rr"


class TestMasa(SchedulePolicyContract):
    policy = "masa"


class TestMasaAsPublished(SchedulePolicyContract):
    policy, keeps_budget = "masa:code", False


class TestMasaWithMappedWeights(SchedulePolicyContract):
    policy = "masa:mapped"


class TestReuse(SchedulePolicyContract):
    policy, passes = "reuse", PASSES
