from pathlib import Path

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_both_sides_are_in_the_answer(agent_runner):
    run = agent_runner("reviews", "ALL IS LOST", catalog=CATALOG)
    assert run.final_text == "Your text: 3 words, it shouts."


def test_the_state_is_kept_between_exchanges(agent_runner):
    run = agent_runner("reviews", ["ALL IS LOST", "All is well, I think"], catalog=CATALOG)
    assert run.final_text == "Your text: 5 words, it is calm."
    assert len(run.state["findings"]) == 4
