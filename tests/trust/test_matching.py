"""What statements rest on, measured on answers made by hand: true links are found, and false ones are not."""

import json
import random

import pytest
from support.cpu_time import takes_at_most

from agentic_backend.trust.matching import Evidence, matches

WEATHER = json.dumps({"city": "Paris", "condition": "sunny", "temp_c": 21, "wind_kmh": 14, "humidity": 0.48})
INVOICES = json.dumps(
    [
        {"number": "INV-2041", "customer": "Müller GmbH", "total": 1204300.5, "currency": "EUR", "due": "2026-12-03"},
        {"number": "INV-2042", "customer": "Acme Corporation", "total": 980, "currency": "EUR", "due": "2026-12-17"},
    ]
)
HANNIBAL = (
    "Hannibal crossed the Alps in 218 BC with an army that included war elephants. He defeated the Romans at the "
    "Trebia, at Lake Trasimene and at Cannae, but he never besieged Rome itself. Scipio defeated him at Zama in 202 BC."
)
TOKYO = "東京都の人口は約1400万人で、日本の首都である。主要な産業は金融とサービス業だ。"
GUIDE = (
    "To restart the service, run `systemctl restart agentic`. The log is written to /var/log/agentic.log by default."
)


def rests(statement: str, *texts: str, asked: str = "") -> list[str]:
    """The numbers of the texts that the statement rests on."""
    evidence = [Evidence(str(number), text) for number, text in enumerate(texts, 1)]
    [found] = matches([statement], evidence, asked)
    return found


@pytest.mark.parametrize(
    ("statement", "text", "asked"),
    [
        ("It is 21 degrees and sunny in Paris.", WEATHER, "What's the weather in Paris?"),
        ("Paris has 21 °C.", WEATHER, "Weather in Paris?"),
        ("Die Temperatur in Paris beträgt 21 Grad.", WEATHER, "Wie ist das Wetter in Paris?"),
        ("The humidity is 0.48 and the wind 14 km/h.", WEATHER, ""),
        ("Invoice INV-2041 of Müller GmbH is due on 2026-12-03.", INVOICES, "Which invoices are due?"),
        ("Insgesamt stehen 1.204.300,50 € aus.", INVOICES, "Wie viel steht aus?"),
        ("The larger one amounts to 1,204,300.50 EUR.", INVOICES, ""),
        ("Le total est de 1\u202f204\u202f300,5 euros.", INVOICES, ""),
        ("The customer is Acme Corporation.", INVOICES, "Who owes what?"),
        ("Hannibal crossed the Alps with war elephants.", HANNIBAL, "Who was Hannibal?"),
        ("He won at Cannae and at Lake Trasimene.", HANNIBAL, "What did Hannibal win?"),
        ("He lost to Scipio at Zama in 202 BC.", HANNIBAL, ""),
        ("東京は日本の首都です。", TOKYO, ""),
        ("人口は約1400万人です。", TOKYO, "東京の人口は?"),
        ("Run `systemctl restart agentic`.", GUIDE, "How do I restart it?"),
        ("| Acme Corporation | 980 | 2026-12-17 |", INVOICES, ""),
        (
            "| Air France | 08:15 | €129 |",
            '{"airline": "Air France", "at": "2026-12-05T08:15:00Z", "price": 129.0}',
            "",
        ),
        ("The first one is due on December 3rd, 2026.", INVOICES, ""),
        ("Die zweite ist am 17. Dezember 2026 fällig.", INVOICES, ""),
        ("La deuxième est due le 17 décembre 2026.", INVOICES, ""),
        ("It was paid on 5 Mar 2026 by Müller.", "Müller GmbH: paid on March 5, 2026", ""),
        ("Müller GmbH zahlt bis zum 03.12.2026.", json.dumps({"Kunde": "Müller", "Frist": "3.12.2026"}), ""),
    ],
)
def test_a_true_link_is_found(statement: str, text: str, asked: str) -> None:
    assert rests(statement, text, asked=asked) == ["1"]


@pytest.mark.parametrize(
    ("statement", "text", "asked"),
    [
        ("Yes.", "yes", ""),
        ("The", "the", ""),
        ("2", "2", ""),
        ("There are 2 of them.", '{"page": 2, "of": 7}', ""),
        ("It is 35 degrees and sunny in Paris.", WEATHER, "What's the weather in Paris?"),
        ("I can look up the weather in Paris for you.", WEATHER, "What's the weather in Paris?"),
        ("Paris is the capital of France.", WEATHER, "What's the weather in Paris?"),
        ("Let me know if you need more information about that.", GUIDE, ""),
        ("I hope that this will help you with your work.", HANNIBAL + " That will help you with your hope.", ""),
        ("Is there anything else that you would like to know?", HANNIBAL, ""),
        ("In 2026 everything was different.", INVOICES, ""),
        ("INV-2041 is due on 3 January 2026.", INVOICES, ""),
        ("Müller GmbH hat bis zum 3. Mai 2026 Zeit.", INVOICES, ""),
        ("You may 2 times march 3 miles.", "may march miles times", ""),
        ("Caesar crossed the Rubicon in 49 BC.", HANNIBAL, ""),
        ("Hannibal was born in Carthage in 247 BC.", HANNIBAL, "Who was Hannibal?"),
        ("Acme Corporation owes 1,980 EUR.", INVOICES, ""),
        ("INV-2043 is the last one.", INVOICES, ""),
        ("The report has 21 pages.", WEATHER, ""),
        ("大阪は西日本の大都市です。", TOKYO, ""),
        ("Of the 12 that you have asked about, none is late.", INVOICES + " 12", "Which of the 12 are late?"),
        ("Ich helfe Ihnen gerne weiter, wenn Sie noch Fragen haben.", INVOICES, ""),
        ("```", "```", ""),
        ("", HANNIBAL, ""),
    ],
)
def test_a_false_link_is_absent(statement: str, text: str, asked: str) -> None:
    assert rests(statement, text, asked=asked) == []


def test_a_passage_of_one_text_supports_a_statement_and_not_the_text_as_a_whole() -> None:
    far_apart = "Hannibal was a general. " + "The weather was fine that day. " * 60 + "Elephants eat grass."
    assert rests("At Zama, Hannibal had elephants.", far_apart) == []
    assert rests("At Zama, Hannibal had elephants.", "At Zama, Hannibal led eighty elephants.", far_apart) == ["1"]


def given(statement: str, text: str, args: str, asked: str = "") -> bool:
    [found] = matches([statement], [Evidence("1", text, args)], asked)
    return bool(found)


def test_figures_that_a_tool_was_given_need_not_be_in_its_result() -> None:
    asked = "What is 17 * 23?"
    assert given("17 * 23 = 391.", "391", '{"expression": "17 * 23"}', asked)
    assert given("17 * 23 = 391.", "17 * 23 = 391", '{"expression": "17 * 23"}', asked)
    assert not given("17 * 24 = 391.", "391", '{"expression": "17 * 23"}', asked)
    assert not given("17 * 23 = 391.", "391 rows", '{"expression": "17 * 23"}', asked)
    assert not given("17 * 23 = 392.", "391", '{"expression": "17 * 23"}', asked)
    assert not given("I take 17 of them.", "ok", '{"count": 17}')


def test_each_text_that_supports_a_statement_is_named_once() -> None:
    assert rests("Paris has 21 degrees.", WEATHER, HANNIBAL, WEATHER + " " * 900 + WEATHER) == ["1", "3"]


def test_what_is_all_over_a_large_result_supports_nothing_by_itself() -> None:
    rows = [{"status": "open", "owner": "nobody", "project": "Apollo", "ticket": 4000 + row} for row in range(400)]
    text = json.dumps(rows)
    assert rests("Nobody is the owner of any open project Apollo.", text) == []
    assert rests("Ticket 4321 of project Apollo has no owner.", text) == ["1"]


def test_escaped_texts_in_json_are_read() -> None:
    text = json.dumps({"Stadt": "Zürich", "Straße": "Löwenstraße"})
    assert "\\u" in text
    assert rests("Die Anschrift ist Löwenstraße in Zürich.", text) == ["1"]


HOSTILE = {
    "figures": (" ".join(map(str, range(100_000, 105_000))), " ".join(map(str, range(100_000, 140_000)))),
    "one word": ("a" * 32_000, "a" * 260_000),
    "one sentence": ("alpha beta gamma " * 2_000, "alpha beta gamma " * 16_000),
    "versions": ("1.2.3." * 5_000, "1.2.3." * 43_000),
    "escapes": ("x", "\\u00fc" * 43_000),
    "months": ("3 december " * 3_000, "3 december " * 23_000),
    "signs": ("[1" * 16_000, "[1" * 130_000),
    "han": ("".join(map(chr, range(0x4E00, 0x8E00))), "".join(map(chr, range(0x4E00, 0x8E00))) * 16),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_little_time(name: str) -> None:
    answer, text = HOSTILE[name]
    statements = [answer[place : place + 60] for place in range(0, len(answer), 60)]
    assert takes_at_most(1, lambda: matches(statements, [Evidence("1", text)], ""))


def test_random_answers_rest_on_nothing() -> None:
    words = [f"{chr(97 + number % 26)}{number:05x}" for number in range(5_000)]
    chosen = random.Random(15)
    text = " ".join(chosen.choices(words, k=20_000))
    statements = [" ".join(chosen.choices(words, k=10)) for _ in range(200)]
    assert sum(map(bool, matches(statements, [Evidence("1", text)], ""))) == 0
