"""What is read of each kind of file: its headings, tables with their captions, code, and the path of each block."""

from datetime import datetime

import pytest
from support.attached_files import a_pdf
from support.extracting import extracted, outline
from support.further_cases import each_once
from support.made_documents import a_docx, a_laid_out_pdf, a_paragraph, a_word_table, a_workbook

TABLE = "| Jahr | Größe |\n| --- | --- |\n| 2023 | 1,5 |"
MARKDOWN = f"""---
title: x
---
# Größen #

Ein Absatz
in zwei Zeilen.

Zahlen
------

Tabelle 1: Häuser am Meer.

{TABLE}

1. eins
   - tief

~~~ Python
# kein Titel
~~~
"""


async def test_markdown_is_read_as_it_is() -> None:
    document = await extracted(MARKDOWN.encode(), "notes.MD")
    assert (document.kind, document.text) == ("markdown", MARKDOWN)
    above = ("Größen", "Zahlen")
    assert outline(document) == [
        ("code", "---\ntitle: x\n---", (), "yaml"),
        ("heading", "# Größen #", (), 1),
        ("paragraph", "Ein Absatz\nin zwei Zeilen.", ("Größen",)),
        ("heading", "Zahlen\n------", ("Größen",), 2),
        ("table", f"Tabelle 1: Häuser am Meer.\n\n{TABLE}", above, "Tabelle 1: Häuser am Meer."),
        ("item", "1. eins", above, 1),
        ("item", "   - tief", above, 2),
        ("code", "~~~ Python\n# kein Titel\n~~~", above, "python"),
    ]
    assert document.rows(document.blocks[4]) == [["Jahr", "Größe"], ["2023", "1,5"]]


PAGE = """<!-- x --><!DOCTYPE html><html><head><meta charset="{charset}"><title>T</title></head><body>
<nav><a href="/">Start</a> <a href="/x">Produkte</a></nav><main>
<h1>Größen</h1><p>Ein Absatz über <b>Häuser</b> am Meer,<br>der lang genug ist.</p><h2>Zahlen</h2>
<table><caption>Häuser am Meer</caption><tr><th>Jahr</th><th>Größe</th></tr><tr><td>2023</td><td>1,5</td></tr></table>
<ul><li>eins<ul><li>tief</li></ul></li></ul>
<pre><code class="language-python">def f():
    return 1
</code></pre></main><footer>Impressum</footer><script>alert(1)</script></body></html>"""
ABOVE = ("Größen", "Zahlen")
READ_OF_PAGE = [
    ("heading", "# Größen", (), 1),
    ("paragraph", "Ein Absatz über Häuser am Meer,\nder lang genug ist.", ("Größen",)),
    ("heading", "## Zahlen", ("Größen",), 2),
    ("table", f"Häuser am Meer\n\n{TABLE}", ABOVE, "Häuser am Meer"),
    ("item", "- eins", ABOVE, 1),
    ("item", "  - tief", ABOVE, 2),
    ("code", "```python\ndef f():\n    return 1\n```", ABOVE, "python"),
]


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "cp850"])
async def test_a_page_is_read_without_its_menus_in_the_charset_that_it_declares(charset: str) -> None:
    document = await extracted(PAGE.format(charset=charset).encode(charset), "innocent.txt")
    assert document.kind == "html" and outline(document) == READ_OF_PAGE


async def test_a_mark_tells_a_pages_encoding_whatever_it_declares() -> None:
    document = await extracted(PAGE.format(charset="cp850").encode("utf-16"), "a")
    assert outline(document) == READ_OF_PAGE


@pytest.mark.parametrize("sentences", [1, 100])
async def test_what_a_page_hides_is_not_read_and_what_a_form_holds_is(sentences: int) -> None:
    hidden = "<p hidden>Geheim</p><div style='Display : none'><b>Geheim</b></div>"
    page = f"<html><body><form><h1>Titel</h1>{hidden}<p>{'Ein Satz am Meer. ' * sentences}</p></form></body></html>"
    text = (await extracted(page.encode())).text
    assert "Geheim" not in text and text.startswith("# Titel") and text.count("Satz") == sentences


async def test_a_table_that_only_lays_a_page_out_is_no_table() -> None:
    inner = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    page = f"<html><table><tr><td><h1>Titel <a href='#t'>#</a></h1><p>Satz.</p>{inner}</td><td>Rand</td></tr></table>"
    document = await extracted(page.encode())
    assert [(block.kind, document.text_of(block)) for block in document.blocks] == [
        ("heading", "# Titel"),
        ("paragraph", "Satz."),
        ("table", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ("paragraph", "Rand"),
    ]


async def test_docx_is_read_by_its_styles() -> None:
    content = [
        a_paragraph("Größen", "Title"),
        a_paragraph("Zahlen", "Heading2"),
        a_paragraph("Ein Absatz."),
        a_paragraph("Häuser am Meer", "Caption"),
        a_word_table([["Jahr", "Größe"], ["2023", "1,5"]]),
        a_paragraph("x = 1", "Code"),
        a_paragraph("y = 2", "Code"),
    ]
    document = await extracted(a_docx(*content), "innocent.pdf")
    assert document.kind == "docx"
    assert outline(document) == [
        ("heading", "# Größen", (), 1),
        ("heading", "## Zahlen", ("Größen",), 2),
        ("paragraph", "Ein Absatz.", ABOVE),
        ("table", f"Häuser am Meer\n\n{TABLE}", ABOVE, "Häuser am Meer"),
        ("code", "```\nx = 1\ny = 2\n```", ABOVE),
    ]


async def test_a_caption_below_its_table_is_its_caption_too() -> None:
    table, caption = a_word_table([["a", "b"], ["1", "2"]]), a_paragraph("Table 7: Below", "Caption")
    document = await extracted(a_docx(table, caption, a_paragraph("Text.")))
    assert [(block.kind, block.caption) for block in document.blocks] == [
        ("table", "Table 7: Below"),
        ("paragraph", None),
    ]
    assert document.rows(document.blocks[0]) == [["a", "b"], ["1", "2"]]


async def test_a_workbook_has_a_table_for_each_sheet_that_is_seen() -> None:
    at = datetime(2024, 1, 2)
    sheets = {
        "Umsätze": [["Übersicht"], [], [None, "Jahr", "Größe", "Am"], [None, 2023, 1.5, at], [None, 2024, 2.0, True]],
        "Leer": [],
        "Geheim": [["Passwort"]],
        "Zwei": [["a|b\\", "c\nd"], ["e", "=1+1"]],
    }
    document = await extracted(a_workbook(sheets, hidden=["Geheim"]), "a.csv")
    table = "| Jahr | Größe | Am |\n| --- | --- | --- |\n| 2023 | 1.5 | 2024-01-02 |\n| 2024 | 2 | TRUE |"
    assert document.kind == "xlsx"
    assert outline(document) == [
        ("heading", "# Umsätze", (), 1),
        ("table", f"Übersicht\n\n{table}", ("Umsätze",), "Übersicht"),
        ("heading", "# Zwei", (), 1),
        ("table", "| a\\|b\\ | c d |\n| --- | --- |\n| e |  |", ("Zwei",)),
    ]
    assert document.rows(document.blocks[3]) == [["a|b\\", "c d"], ["e", ""]]


ENCODINGS = ("cp1252", "utf-16", "utf-8", "utf-8-sig", "utf-16-le")


@pytest.mark.parametrize(("delimiter", "encoding"), each_once([";", ",", "\t", "|"], ENCODINGS))
async def test_csv_is_read_with_any_delimiter_in_any_encoding(delimiter: str, encoding: str) -> None:
    rows = [["Größe", "Preis, netto", "Stück"], ["Äpfel", "1,50 €", "3"], ['"süß"', "2;5 €", ""]]
    text = "".join(delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n" for row in rows)
    document = await extracted(text.encode(encoding), "preise.CSV")
    [table] = document.blocks
    assert (document.kind, document.rows(table)) == ("csv", rows)


async def test_csv_as_excel_writes_it_is_read() -> None:
    document = await extracted("sep=;\r\nGröße;Preis\r\nÄpfel;1,50 €\r\n".encode("cp1252"), "a.csv")
    assert document.text == "| Größe | Preis |\n| --- | --- |\n| Äpfel | 1,50 € |"


LAID_OUT = [
    ("Groessen", 40, 270, 24, False),
    ("Ein Absatz am Meer der Häu-", 40, 230, 12, False),
    ("ser am Ufer.", 40, 216, 12, False),
    ("Zweiter Absatz.", 40, 180, 12, False),
    ("Fetter Titel", 40, 150, 12, True),
    ("• ein Punkt", 40, 130, 12, False),
]


async def test_a_pdf_has_the_place_of_each_line() -> None:
    document = await extracted(a_laid_out_pdf(LAID_OUT, [("Zweite Seite.", 40, 270, 12, False)]), "a.txt")
    above = ("Groessen", "Fetter Titel")
    assert document.kind == "pdf" and outline(document) == [
        ("heading", "Groessen", (), 1),
        ("paragraph", "Ein Absatz am Meer der Häuser am Ufer.", ("Groessen",)),
        ("paragraph", "Zweiter Absatz.", ("Groessen",)),
        ("heading", "Fetter Titel", ("Groessen",), 2),
        ("item", "• ein Punkt", above, 1),
        ("paragraph", "Zweite Seite.", above),
    ]
    assert [(page.width, page.height) for page in document.pages] == [(400, 300)] * 2
    start = document.text.index("Häuser")
    [place] = document.places(start, start + 6)
    assert place.page == 1
    # The word goes over two lines: from their tops to their feet, from the left margin on.
    (left, top, right, bottom), (_, second_top, _, second_bottom) = place.boxes
    assert 39 < left < 42 and top < 300 - 230 < bottom and second_top < 300 - 216 < second_bottom and right < 220
    assert [each.page for each in document.places(0, len(document.text))] == [1, 2]
    assert document.places(len(document.text), len(document.text) + 5) == []


CELLS = [("Jahr", "Groesse in m", "Ort"), ("2023", "1,5", "Kiel"), ("2024", "", "Lübeck"), ("2025", "12,75", "Rostock")]
PROSE = [
    "eine Spalte mit vielen Worten",
    "und daneben noch eine andere",
    "die auch so viele Worte hat",
    "und kein Ende nimmt",
]


async def test_a_table_in_a_pdf_has_its_rows_its_caption_and_a_place_for_each_row() -> None:
    rows = [
        (cell, 40 + 110 * column, 230 - 16 * row, 12, row == 0)
        for row, cells in enumerate(CELLS)
        for column, cell in enumerate(cells)
        if cell
    ]
    caption, after = ("Tabelle 1: Boote", 40, 250, 12, False), ("Ein Absatz, der danach kommt.", 40, 150, 12, False)
    document = await extracted(a_laid_out_pdf([caption, *rows, after]))
    table, _ = document.blocks
    assert (table.kind, table.caption, document.blocks[1].kind) == ("table", "Tabelle 1: Boote", "paragraph")
    assert document.rows(table) == [list(row) for row in CELLS]
    start = document.text.index("2024")
    [place] = document.places(start, start + 4)
    [(left, top, right, bottom)] = place.boxes
    assert left < 42 and right > 260 and top < 300 - 198 < bottom


async def test_columns_of_prose_are_no_table() -> None:
    lines = [
        (f"{words} {words}", left, 250 - 14 * number, 8, False)
        for number, words in enumerate(PROSE)
        for left in (20, 320)
    ]
    document = await extracted(a_laid_out_pdf(lines))
    assert {block.kind for block in document.blocks} == {"paragraph"}


async def test_a_page_that_is_turned_has_its_places_as_it_is_shown() -> None:
    document = await extracted(a_laid_out_pdf([("Oben links", 40, 270, 12, False)], rotate=90))
    [page], [line] = document.pages, document.lines
    assert (page.width, page.height) == (300, 400)
    left, top, right, bottom = line.box
    assert 260 < left < right < 290 and 35 < top < bottom < 110


@pytest.mark.parametrize(
    ("name", "language"), [("a.py", "python"), ("b/Dockerfile", "dockerfile"), ("x.d.ts", "typescript")]
)
async def test_source_code_has_its_language_and_a_block_for_each_piece(name: str, language: str) -> None:
    text = "import x\n\n\ndef f():\n    a\n\n    b\n\n\n{\n}\n"
    document = await extracted(text.encode(), name)
    assert (document.kind, document.text) == ("code", text)
    assert outline(document) == [
        ("code", "import x", (), language),
        ("code", "def f():\n    a\n\n    b", (), language),
        ("code", "{\n}", (), language),
    ]


@pytest.mark.parametrize("name", ["a", "a.txt", "report\u202efdp.exe", ".", "a.docx", "a.pdf\0.md.log"])
async def test_a_text_is_its_paragraphs_whatever_it_is_called(name: str) -> None:
    document = await extracted("Die Größe\r\nder Häuser.\r\n \r\n\r\nZwei".encode("cp1252"), name)
    assert (document.kind, document.text) == ("text", "Die Größe\nder Häuser.\n \n\nZwei")
    assert outline(document) == [("paragraph", "Die Größe\nder Häuser.", ()), ("paragraph", "Zwei", ())]


ENCODED = {
    "cp1250": "Zażółć gęślą jaźń, proszę bardzo, dziękuję.",
    "cp1251": "Привет, как дела? Это обычный текст на русском языке.",
    "shift_jis": "これは日本語のテキストです。よろしくお願いします。",
    "cp1252": "L’été à la mer, ça coûte 3 €. Où êtes-vous né ?",
    "utf-16-be": "Größe ohne Marke",
    "utf-32": "Größe mit Marke",
}


@pytest.mark.parametrize("encoding", ENCODED)
async def test_the_encoding_of_a_text_is_recognized(encoding: str) -> None:
    assert (await extracted(ENCODED[encoding].encode(encoding))).text == ENCODED[encoding]


async def test_a_byte_that_is_broken_leaves_the_rest_of_the_text() -> None:
    assert (await extracted(b"a\xff" + "ö".encode() * 20)).text == "a\ufffd" + "ö" * 20


async def test_a_pdf_is_read_as_it_was_before_its_places_were() -> None:
    """Word for word what pypdf read of the PDFs of these tests, which models were given until then."""
    assert (await extracted(a_pdf("The secret word is", "on page 2"))).text == "The secret word is\n\non page 2"
