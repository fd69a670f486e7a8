"""The paper's tables: every cell has its numbers and its settings."""

import pytest

from ofcl import OfclError
from ofcl.data.named.catalogue import DATASETS
from ofcl.reproduce import plan
from ofcl.reproduce.paper import TABLES, choose, table


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("protocol", ["sound", "published"])
def test_every_cell_can_be_asked_for(tmp_path, name, protocol):
    cells = table(name)
    jobs = plan.jobs(cells, 2, protocol, tmp_path, {})
    assert len(jobs) == 2 * len(cells) > 0
    assert all(job.settings.dataset in DATASETS for job in jobs)
    assert {job.settings.seed for job in jobs} == {0, 1}
    if name not in ("rounds", "runtime"):
        assert all(cell.A is not None and cell.F is not None for cell in cells)
    else:
        assert all(cell.paper for cell in cells)


def test_the_paper_s_values_are_all_there():
    assert sum(len(table(name)) for name in ("table1", "table2", "table3", "table4")) == 150
    assert len(table("table6")) == 11
    (bi,) = choose("table1", "cifar10/M200/bi/bottom")
    assert (bi.A, bi.A_std, bi.F) == (24.89, bi.A_std, 35.77)
    top = choose("table1", "M200/bi/top")
    assert [cell.settings["keep"] for cell in top] == ["top"]
    assert [cell.paper for cell in choose("runtime", "bi")] == [660]


def test_what_cells_change():
    assert [c.settings["q"] for c in table("jump")] == [1, 3, 5, 10, 50]
    assert [c.settings["tasks"] for c in table("tasks")][:4] == [5, 10, 20, 25]
    counts = [len(c.settings.get("perturbations", range(12))) for c in table("augmentations")]
    assert counts == [8, 10, 12]
    averaging = [c.settings["aggregation"] for c in table("averaging")]
    assert averaging == ["fedavg", "weighted", "fedprox"]
    plain = {c.row: c.settings for c in table("table5") if c.dataset == "cifar10"}
    assert plain["FedProx"] == {"dataset": "cifar10", "method": "none", "aggregation": "fedprox"}


def test_tables_and_cells_that_there_are_not():
    with pytest.raises(OfclError, match="unknown table 'table7'"):
        table("table7")
    with pytest.raises(OfclError, match="no cell of table1 is 'cifar10/M201'"):
        choose("table1", "cifar10/M201")
