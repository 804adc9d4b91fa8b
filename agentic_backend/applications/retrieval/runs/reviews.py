"""Reviews: lets policy modules look at what a run says and is given, as they look at an agent's conversations."""

from dataclasses import replace
from typing import TYPE_CHECKING

from agentic_backend.application import Point, ReviewedText, User
from agentic_backend.applications.retrieval.answering.passages import Packed
from agentic_backend.applications.retrieval.answering.pipeline import TOOL, reviewed

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval


class Reviews:
    """Of one run. Each of its methods raises Blocked if a module has blocked the text."""

    def __init__(self, application: "Retrieval", user: User, within: str) -> None:
        """`within` is the id of the conversation; texts of the same one have the same."""
        self._application = application
        self._user = user
        self._within = within

    async def question(self, text: str) -> ReviewedText:
        return await self._application.review(
            text, user=self._user, agent_id=self._agent_id, point=Point.BEFORE_AI, within=self._within
        )

    async def answer(self, text: str, question: str = "") -> ReviewedText:
        """An answer to the question, or a summary of what was said."""
        return await self._application.review(
            text, user=self._user, agent_id=self._agent_id, point=Point.AFTER_AI, question=question, within=self._within
        )

    async def packed(self, packed: Packed) -> Packed:
        """The passages as modules leave them."""
        return replace(packed, passages=await reviewed(packed.passages, self.found))

    async def found(self, text: str) -> str:
        """What a model is given beside the question."""
        left = await self._application.review(
            text,
            user=self._user,
            agent_id=self._agent_id,
            point=Point.TOOL_RESULT,
            tool=TOOL,
            within=self._within,
        )
        return left.text

    @property
    def _agent_id(self) -> str:
        return str(self._application.settings.runs_agent)
