"""Whoever works something out of states hears when they change, and hears nothing else."""

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.ageing_cluster import NODES, AgeingCluster, dead, hung, ten_nodes, well
from leadsman.testing.reports import report, volume


class Told:
    """Writes down what a listener is told."""

    def __init__(self, index: HealthIndex) -> None:
        self.words: list[str] = []
        index.listen(self)

    def refresh(self, node: str) -> None:
        self.words.append(node)

    def reset(self) -> None:
        self.words.append("all")

    def take(self) -> list[str]:
        words, self.words = self.words, []
        return words


def test_listeners_hear_of_each_node_that_changes_and_of_changes_of_all() -> None:
    """A heartbeat, a volume or a policy that says the same is no news; whoever left hears nothing."""
    here = AgeingCluster()
    told = Told(here.index)
    here.hear(well("n1"))
    assert told.take() == ["n1"]
    here.hear(well("n1"), report("n2", volumes=[volume("nfs/pv-1")]))
    here.adopt(StoragePolicy())
    assert told.take() == []

    here.wait(30)
    assert told.take() == ["n1"]
    here.forget("n1")
    assert told.take() == ["n1"]
    here.adopt(StoragePolicy(DriverPolicy(unknown=Treatment.REJECT)))
    assert told.take() == ["all"]

    here.lose_bus()
    here.wait(900)
    assert told.take() == ["all"]
    here.find_bus()
    assert told.take() == ["all"]

    here.index.unlisten(told)
    here.hear(hung("n1"))
    assert told.take() == []


def test_listeners_hear_when_a_breaker_opens_and_closes() -> None:
    """The nodes of the driver are worth something else then, though their states are the same."""
    here = ten_nodes()
    here.hear(*map(dead, NODES[:8]))
    told = Told(here.index)
    here.hear(dead("n8"))
    assert sorted(told.take()) == ["all", "n8"]

    here.hear(well("n8"))
    here.wait(10)
    assert told.take() == ["n8", "all"]
