from pathlib import Path

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


def test_it_books_the_train_that_the_person_chose(agent_runner):
    run = agent_runner("trains", "To Bern", catalog=CATALOG, answer=lambda request: request.choices[1].id)
    assert [request.question for request in run.requests] == ["Which train?"]
    assert run.final_text == "I booked the late train."
