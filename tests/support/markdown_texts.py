"""Markdown as models write it, and as nobody should."""

TEXTS = [
    "A paragraph with *emphasis*, **strong *both* words**, ~~gone~~ and `code`.\n\nAnother one\nin two lines.",
    "# A title\n\nText\n\nSetext\n===\n\nMore\n---\nEnd\n\n## Another",
    "- one\n- two\n  - inner\n  - second\n\n    with a paragraph\n- three\n\n- four\n\nEnd",
    "1. one\n2. two\n10. ten\n\n   more of ten\n\n1) another list\n2) its second",
    "3. three\n4. four\n\n- a\n* b\n+ c",
    "- [ ] to do\n- [x] done\n- plain",
    "- plain\n- [x] done",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n| **3** | `4 | 5` |\n| short\n\nEnd",
    "a | b\n--|--\n1 | 2\nthree\n\n| no | table |\n\n| not | a table\n| either |",
    "```python\ndef f():\n    return '''\n```\n\nafter\n\n~~~~\na\n~~~\nb\n~~~~\n",
    "```\nnever closed\n\n- not a list\n",
    "  ```js\n  let a = 1;\n    let b;\n  ```\nend",
    "- item\n\n  ```js\n  let a = 1;\n  ```\n\n- next\n\n      indented\n\nend",
    "    indented code\n\n    goes on\n\nand ends",
    "> quoted\n> more\n>\n> - a\n> - b\n\n> [!NOTE]\n> An *alert*\n>\n> in two paragraphs\n\n> [!unknown]\n> quote",
    "Inline \\(a+b\\) and \\[c\\] and $$d$$ and $5.\n\n$$\n\\frac{a}{b}\n$$\n\n\\[\nx\n\\]\n\n$$ never closed",
    "A note[^1], another[^long] and the first again[^1]; none[^none].\n\n[^1]: The first.\n[^long]: The *second*\n\n"
    "    in two paragraphs.\n\nEnd.",
    "See [this][ref] and [that] and [none].\n\nMore\n\n[ref]: https://example.org/a\n[that]: https://example.org/b\n'a\n"
    "title'\n\nEnd [ref].",
    "[ref]: https://example.org\n'no end\n\n[ref]",
    "A [link](https://example.org 'title') and <https://example.org/b> and https://example.org/c, ![i](data:,x).",
    "[a\nb](https://example.org) [1] [2](https://example.org/2) [not a link] [](x) ![",
    "one<br>two<br/>three &amp; &copy; &notanentity; a < b & c <b>",
    "\\*not emphasis\\* 2 * 3 * 4 snake_case_name __init__ **bold**text *a*b* _c_ ***d*** ** e **",
    "***\n\n---\n- - -\ntext\n***\ntext\n- \n- a\n\n-\n\n  b",
    "1\n2.\n\n2. b\n\n\n3. c\n    4. d\n",
    "مرحبا **بالعالم**\n\n- واحد\n- two\n\n| שלום | b |\n|---|---|\n| 1 | אחת |",
    "| a |\n|---|\n| 1 |\n- a list\n> a quote\n\n| b |\n| - |\n",
    "- a\n - b\n  - c\n   - d\n    - e\n",
    "text\n\n\n\n\n\ttab\n\n- a\n\n\n\n- b\n\r\nwindows\r\n\r\n- c\r\n- d\r\n",
    "![a](https://outside.example/a.png) and ![s](data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'/%3E)",
    "**「強調」**です。これは**“引用”**だ。*注意：*必ず _「読む」_ ~~「消す」~~。",
    "It costs $5 to $10, US$ 3; $x_1^2 + y$ is $n$th, \\$a$ and $b\\$c$ and `$d` $.\n\n$e\nf$ and $ g$",
    "H<sub>2</sub>O <KBD class='x'>Ctrl</kbd>+<kbd>*C*</kbd> <sup>a<sub>b</sub></sup> <sub>never </sup>",
    "<details><summary>More</summary>hidden at first</details>\n\nEnd",
    "text\n<details open onclick='x'>\n<summary>\n*Two* words\n</summary>\n\n- a\n- b\n\n```html\n</details>\n```"
    "\n\n<details>\ninner\n</details>\n\nlast\n</details>\nEnd",
    "- item\n\n  <details>\n  <summary>*More*</summary>\n  inside\n\n  | a |\n  |---|\n  | 1 |\n  </details>\n- next"
    "\n\n> <details><summary>a\n> b</details>\n\n<details>\nnever closed\n\n# to the end",
    "",
    "\n\n",
]
"""Each kind of block and mark, and how they meet."""

HOSTILE = [
    "[" * 500 + "](" * 200,
    "*_`~" * 300,
    "> " * 300 + "deep",
    "- " * 200 + "deep",
    "`" * 100 + "a" + "`" * 99,
    "|" * 300 + "\n" + "|-" * 300 + "\n" + "|" * 300,
    "```show-image copy-code\n<img src=x>\n```\n\n```<b>\n</code></pre>\n```",
    "\\(" * 100 + "$$" * 101,
    "[__proto__]: https://example.org\n\n[__proto__] [constructor] [^__proto__] [^constructor]\n\n[^constructor]: a",
    "\u202e[a](https://example.org)\u0000\ufffd\n\n- \u202eb",
    "[^a]" * 50 + "\n\n[^a]: [^a] [^b]\n[^b]: x",
]
"""Texts that are meant to confuse or to exhaust the renderer."""

MIXED = "\n\n".join(text for text in TEXTS if "never closed" not in text)

TOUCHED = "\n".join(
    [
        "A paragraph that is closed.",
        "",
        "```python",
        "print('closed')",
        "```",
        "",
        "```python",
        *[f"{name} = {number}" for number, name in enumerate("first second third fourth fifth".split(), start=1)],
        "```",
        "",
        "And an end.",
    ]
)
"""A paragraph and two blocks of code, to be touched while they are written."""

ROW = "| row{number} | " + "a_very_long_word_that_does_not_break_" * 5 + " |"
"""A row that makes its table scroll."""

EVERY_MARK = """\
# Title with **strong** words

A *word in italics*, **two strong words**, ***both of them***, _another one_, ~~gone for good~~, `some code here`,
[a link to read](https://example.org/a/long/path), <https://example.org/auto> and
[another link][ref] with \\(a + b\\) and $$c + d$$ &copy; so on.[^1]

[A link at the start](https://example.org) of a line, ![an image](/static/icon.svg) in it.

これは**「強調」**と*「強い」*です。 With $x_1^2$ and H<sub>2</sub>O, press <kbd>Enter</kbd>.

<details open>
<summary>A **short** summary</summary>

What is *inside*.

</details>

- **First item** of `list`
- [ ] a task
- [x] a task that is done
  - *inner* item

1. **One**
2. Two

| Name | **Value** |
|:-----|----------:|
| `a`  | *one*     |
| b    | **two**   |

> [!NOTE]
> A *note* to **read**.

$$
\\frac{a}{b}
$$

```python
print("plain")
```

Setext title
------------

***

[ref]: https://example.org/ref
[^1]: A *footnote* text.
"""
"""Each mark that streams in pieces; rendered, it has none of the signs that marks are made of."""
