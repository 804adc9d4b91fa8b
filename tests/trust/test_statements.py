"""The statements of an answer: their places are exact, and whatever Markdown is sent, they are found in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu_time import takes_at_most

from agentic_backend.trust.statements import statements_of


def texts(answer: str) -> list[str]:
    return [answer[span.start : span.end] for span in statements_of(answer)]


@pytest.mark.parametrize(
    ("answer", "statements"),
    [
        ("", []),
        ("---\n\n***\n!?", []),
        ("Yes.", ["Yes."]),
        ("It rains. It is cold!  Really? No…", ["It rains.", "It is cold!", "Really?", "No…"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("It rains [1]. It is cold. [2][3] So what?", ["It rains [1].", "It is cold. [2][3]", "So what?"]),
        ("It is 3.5 % of 1.204, e.g. here.", ["It is 3.5 % of 1.204, e.g. here."]),
        ("J. Smith and Prof. Fox came. So did I.", ["J. Smith and Prof. Fox came.", "So did I."]),
        (
            "It is -5 °C. The wind has 14 km/h. It is 20 m. So.",
            ["It is -5 °C.", "The wind has 14 km/h.", "It is 20 m.", "So."],
        ),
        (
            "Am 24. Dezember z. B. Zimt. Es sind 24. Mehr nicht.",
            ["Am 24. Dezember z. B. Zimt.", "Es sind 24.", "Mehr nicht."],
        ),
        ("| a | b |\n|---|---|\n| Dr. Fox. Well | 3. May |\nEnd", ["| Dr. Fox. Well | 3. May |", "End"]),
        ("# Report\n\nAll is well.\n\nSetext\n===\nIt is.", ["All is well.", "It is."]),
        ("> ## Quoted\n> It is.\n- # Listed\n- too", ["It is.", "too"]),
        ("**Weather:**\nFine.\n- __Wind__:\n- calm\n1. **Sea:** cold", ["Fine.", "calm", "**Sea:** cold"]),
        ("**Paris**", ["**Paris**"]),
        ("**It is 21 °C.**\n---", ["**It is 21 °C.**"]),
        ("| a | b |\n|---|---|\n| **Europe** | |\n| Bern | 3 |\n|  | ✓ |\n", ["| Bern | 3 |"]),
        ("| a |\n|---|\n| Bern |", ["| Bern |"]),
        ("> | a | b |\n> |---|---|\n> | x | 1 |\n> End", ["| x | 1 |", "End"]),
        ("- one. Two\n- [x] three\n  and four\n1. five\n2) six", ["one.", "Two", "three\n  and four", "five", "six"]),
        ("> quoted. Twice\n> again", ["quoted.", "Twice", "again"]),
        ("Name: Ann\nAge: 4", ["Name: Ann", "Age: 4"]),
        ("This line goes\non here.", ["This line goes\non here."]),
        ("| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |\nEnd", ["| x | 1 |", "| y | 2 |", "End"]),
        ("a | b\n--|--\nx | 1\n\nEnd", ["x | 1", "End"]),
        ("Run:\n```sh\nls. Then\nrm\n```\nDone", ["Run:", "ls. Then\nrm", "Done"]),
        ("~~~\n```\nstill code\n~~~", ["```\nstill code"]),
        ("```\nnever closed", ["never closed"]),
        (
            "東京は晴れです。気温は21度。「はい。」と言った。",
            ["東京は晴れです。", "気温は21度。", "「はい。」", "と言った。"],
        ),
        ("यह ठीक है। वह नहीं।", ["यह ठीक है।", "वह नहीं।"]),
        ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
        ("One\r\nTwo\u2028three", ["One", "Two\u2028three"]),
    ],
)
def test_an_answer_is_split(answer: str, statements: list[str]) -> None:
    assert texts(answer) == statements


def test_code_is_one_statement() -> None:
    assert [span.kind for span in statements_of("A.\n```\nb. C. d\n```\nE.")] == ["text", "code", "text"]


@given(st.text(alphabet=st.sampled_from("ab1.!?。 \n\t|-#>*`[]()\"'_~:=x\u0301")))
def test_statements_follow_each_other_and_lose_no_word(answer: str) -> None:
    place = 0
    for start, end, _ in statements_of(answer):
        assert place <= start < end <= len(answer)
        assert answer[start:end] == answer[start:end].strip()
        place = end


@pytest.mark.parametrize(
    "unit", [".", "a. ", "```\n", "|-", " ", ".[1,", ">", "- ", "\n", ".)", "1. ", "| a |\n|-|\n", "…", "。", "[x] "]
)
def test_hostile_markdown_takes_linear_time(unit: str) -> None:
    answer = (unit * 200_000)[:200_000] + "x"
    assert takes_at_most(2, lambda: list(statements_of(answer)))
