"""HeldBack: which texts of a graph are not for people, by the `stream` of its catalog entry. Immutable.

Texts are what models and nodes say: answers, observations, thoughts. Calls of tools and their results are shown in any
case.
"""

from agentic_backend.agents.catalog.catalog import AgentStream
from agentic_backend.streaming.transcode.writing import Place


class HeldBack:
    def __init__(self, stream: AgentStream) -> None:
        self.all_but_final = stream.final_only
        """Whether no text is shown before the graph has ended, and then only the final."""
        self._nodes = None if stream.nodes is None else frozenset(stream.nodes)
        """The nodes whose texts are shown; None is all."""

    def hides(self, place: Place) -> bool:
        """Whether no text from `place` is ever shown: neither its node nor one around it is among the shown ones."""
        if self._nodes is None:
            return False
        namespace, node = place
        return self._nodes.isdisjoint([node, *(around.partition(":")[0] for around in namespace)])


EVERYTHING_SHOWN = HeldBack(AgentStream())
