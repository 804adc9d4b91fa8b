import asyncio
from pathlib import Path

from agentic_backend.testing import call, open_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


async def remembered_by(user, model):
    """What a new session of `user` recalls, after one in which ann has told what she drinks."""
    async with open_agent("preferences", model=model, catalog=CATALOG) as agent:
        await agent.ask("I drink tea", user="ann")
        agent.session_id = None
        run = await agent.ask("What do I drink?", user=user)
    return run.tool_uses[0].result


def test_a_new_session_remembers_and_others_learn_nothing(scripted_model):
    for user, known in [("ann", "drink: tea"), ("bob", "nothing yet")]:
        model = scripted_model(call("remember", what="drink", value="tea"), "Noted.", call("recall"), "There.")
        assert asyncio.run(remembered_by(user, model)) == known
