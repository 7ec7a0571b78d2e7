"""Rules on node labels, the plain kind: what node affinity could say, too."""

from dataclasses import dataclass

from leadsman.domain.node_facts import NodeFacts
from leadsman.domain.pod_selectors import Term
from leadsman.domain.policy import UndecidedError

_READS = frozenset({"labels"})


@dataclass(frozen=True, slots=True)
class LabelTest:
    """Whether a node's labels meet all of `terms`."""

    terms: tuple[Term, ...]

    @property
    def reads(self) -> frozenset[str]:
        """See `NodeTest.reads`."""
        return _READS

    def evaluate(self, node: NodeFacts) -> float:
        """1 if all terms hold, else 0.

        Raises:
            UndecidedError: no agent has reported the node's labels.
        """
        if not node.reported:
            raise UndecidedError("the labels of the node are not known: no agent of it has reported")
        return float(all(term.holds(node.labels) for term in self.terms))
