"""The runs of a table."""

from ofcl.reproduce import plan
from ofcl.reproduce.paper import choose


def test_cells_that_are_the_same_share_their_runs(tmp_path):
    def folders(name, only, protocol="published"):
        jobs = plan.jobs(choose(name, only), 1, protocol, tmp_path, {})
        return [str(job.directory.path.relative_to(tmp_path)) for job in jobs]

    usual = ["published/cifar10_bi_memory-200/seed0"]
    assert folders("table1", "M200/bi/bottom") == usual
    assert folders("burn-in", "BI, burn-in 30") == usual
    assert folders("averaging", "BI, averaging Weighted FedAvg") == usual
    assert folders("averaging", "BI, averaging FedAvg", "sound") == [
        "sound/cifar10_bi_memory-200/seed0"
    ]
    assert folders("burn-in", "BI, burn-in 10") == [
        "published/cifar10_bi_burn_in-10_memory-200/seed0"
    ]
