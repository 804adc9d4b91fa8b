from pathlib import Path

import pytest

from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, read_yaml


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "some.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> ConfigProblem:
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    (problem,) = caught.value.problems
    assert problem.file == str(path)
    return problem


def test_values_are_plain_and_placed(tmp_path: Path) -> None:
    document = read_yaml(written(tmp_path, "server:\n  port: 8000\nagents:\n  - id: one\n    tags: [a, 'b']\n"))
    assert document.values == {"server": {"port": 8000}, "agents": [{"id": "one", "tags": ["a", "b"]}]}
    assert document.flaws == []

    value = document.problem(("server", "port"), "is wrong")
    key = document.problem(("server", "port"), "is wrong", at_key=True)
    item = document.problem(("agents", 0, "tags", 1), "is wrong")
    assert (value.line, value.column) == (2, 9)
    assert (key.line, key.column) == (2, 3)
    assert (item.line, item.column, item.where) == (5, 15, "agents[0].tags[1]")


def test_a_problem_reads_as_file_line_column_where_message(tmp_path: Path) -> None:
    path = written(tmp_path, "a:\n  b: 1\n")
    assert str(read_yaml(path).problem(("a", "b"), "is wrong")) == f"{path}:2:6: a.b: is wrong"
    assert str(ConfigProblem("environment", None, None, "AGENTIC_X", "is wrong")) == "environment: AGENTIC_X: is wrong"


def test_what_is_missing_is_placed_at_what_would_hold_it(tmp_path: Path) -> None:
    document = read_yaml(written(tmp_path, "first: 1\nagents:\n  - name: one\n"))
    in_item = document.problem(("agents", 0, "id"), "is missing")
    assert (in_item.line, in_item.column, in_item.where) == (3, 5, "agents[0].id")
    in_mapping = document.problem(("agents", "one", "id"), "is missing")
    assert (in_mapping.line, in_mapping.column) == (2, 1)


@pytest.mark.parametrize("content", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, content: str) -> None:
    document = read_yaml(written(tmp_path, content))
    assert document.values == {}
    assert document.problem(("a",), "is missing").line == 1


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, 2, "is not YAML"),
        ("a: b: c\n", 1, 5, "mapping values are not allowed in this"),
        ("a: 1\n\tb: 2\n", 2, 1, "found a tab character"),
        ("a: *nobody\n", 1, 4, "found undefined alias"),
        ("a: 1\n---\nb: 2\n", 2, 1, "another document"),
        ("- a\n- b\n", 1, 1, "expected a mapping"),
        ("just text\n", 1, 1, "expected a mapping"),
        ("a: 1\nb: x\u0007y\n", 2, 5, "U+0007"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused_with_its_place(
    tmp_path: Path, content: str, line: int, column: int, words: str
) -> None:
    problem = refusal(written(tmp_path, content))
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.message


@pytest.mark.parametrize("value", ["*hunter2", "!hunter2", "!hunter2!x y", "!!int hunter2", "{x: 1, x: hunter2}"])
def test_no_message_shows_a_value(tmp_path: Path, value: str) -> None:
    path = written(tmp_path, f"password: {value}\n")
    try:
        told = [str(problem) for _, problem in read_yaml(path).flaws]
    except ConfigError as error:
        told = [str(error)]
    assert len(told) == 1
    assert f"{path}:1:" in told[0]
    assert "hunter2" not in told[0]


def test_a_file_that_is_not_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    problem = refusal(written(tmp_path, "a: 1\nä: ".encode() + b"caf\xe9\n"))
    assert (problem.line, problem.column, problem.message) == (2, 7, "is not UTF-8 text")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, b"\xef\xbb\xbfa: 1\n")).values == {"a": 1}


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.yaml").message == "there is no such file"
    assert refusal(tmp_path).message == "cannot be read: Is a directory"


def test_duplicate_keys_are_flaws_of_their_mapping_and_the_first_counts(tmp_path: Path) -> None:
    document = read_yaml(written(tmp_path, "a:\n  x: 1\n  y: 2\n  x: 3\nb: 1\nb: 2\n"))
    assert document.values == {"a": {"x": 1, "y": 2}, "b": 1}
    assert [(path, problem.line, problem.column, problem.message) for path, problem in document.flaws] == [
        (("a", "x"), 4, 3, "duplicate key 'x', first on line 2"),
        (("b",), 6, 1, "duplicate key 'b', first on line 5"),
    ]


def test_aliases_and_merges_are_read_where_they_stand(tmp_path: Path) -> None:
    content = "base: &base {x: 1, y: 2}\nother: &other {y: 3, z: 4}\nc:\n  <<: [*base, *other]\n  x: 9\nd: *base\n"
    document = read_yaml(written(tmp_path, content))
    assert document.values["c"] == {"x": 9, "y": 2, "z": 4}
    assert document.values["d"] == {"x": 1, "y": 2}
    assert document.values["d"] is not document.values["base"]
    assert document.problem(("c", "x"), "").line == 5
    assert document.problem(("c", "z"), "").line == 2
    assert document.problem(("c",), "").line == 4


def test_only_mappings_can_be_merged(tmp_path: Path) -> None:
    document = read_yaml(written(tmp_path, "a:\n  <<: [1]\n  x: 1\n"))
    assert document.values == {"a": {"x": 1}}
    assert [problem.message for _, problem in document.flaws] == ["only a mapping can be merged"]


def bomb(shape: str) -> str:
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, 30):
        lines.append(f"a{level}: &a{level} {shape.replace('?', f'*a{level - 1}')}")
    return "\n".join(lines)


@pytest.mark.parametrize("shape", ["[?, ?, ?, ?]", "{<<: [?, ?, ?, ?]}", "{l: ?, r: ?}"])
def test_what_aliases_expand_to_is_bounded(tmp_path: Path, shape: str) -> None:
    assert "with what the aliases stand for" in refusal(written(tmp_path, bomb(shape))).message


@pytest.mark.parametrize("content", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}"])
def test_an_alias_inside_of_itself_is_refused(tmp_path: Path, content: str) -> None:
    assert refusal(written(tmp_path, content)).line == 1


@pytest.mark.parametrize("depth", [100, 5000])
def test_depth_is_bounded(tmp_path: Path, depth: int) -> None:
    refusal(written(tmp_path, "a: " + "[" * depth + "]" * depth))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!!python/object/apply:os.system ['true']", "this tag is not allowed here"),
        ("!mine {x: 1}", "this tag is not allowed here"),
        ("!!set {x}", "this tag is not allowed here"),
        ("!!int s3cret", "cannot be read as int"),
        ("!!int ''", "cannot be read as int"),
        ("!!bool s3cret", "cannot be read as bool"),
        ("!!timestamp s3cret", "cannot be read as timestamp"),
        ("2024-13-45", "cannot be read as timestamp"),
        ("{? [1, 2] : x}", "a key must be plain text"),
    ],
)
def test_a_value_that_is_no_plain_one_is_a_flaw(tmp_path: Path, text: str, message: str) -> None:
    document = read_yaml(written(tmp_path, f"good: 1\nbad: {text}\n"))
    assert document.values["good"] == 1
    ((path, problem),) = document.flaws
    assert (path, problem.line, problem.message) == (("bad",), 2, message)


def test_a_lone_equals_sign_is_text(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "operator: =\n")).values == {"operator": "="}


@pytest.mark.parametrize("number", ["0x" + "f" * 6_000, "1" * 6_000, "1:" * 120_000 + "1", "1." + "1" * 6_000])
def test_a_number_of_thousands_of_digits_is_a_flaw(tmp_path: Path, number: str) -> None:
    document = read_yaml(written(tmp_path, f"a: {number}\n? {number[:999]}\n: 1\nb: 2\n"))
    assert document.values["a"] is None and document.values["b"] == 2
    assert all("no more than 400 characters" in problem.message for _, problem in document.flaws)
    assert len(document.flaws) == 2


def test_what_aliases_add_to_a_text_is_bounded(tmp_path: Path) -> None:
    many = "a: &a " + "w" * 1_000 + "\nb:\n" + "- *a\n" * 1_200
    assert "stand for too much text" in refusal(written(tmp_path, many)).message
    few = read_yaml(written(tmp_path, many[:2_000]))
    assert few.values["b"][0] == "w" * 1_000


def test_a_long_key_is_a_flaw_and_is_not_repeated(tmp_path: Path) -> None:
    document = read_yaml(written(tmp_path, f"{'k' * 1_000}: {{x: 1, x: 2, ? {'l' * 1_025} : 3}}\n"))
    told = [problem for _, problem in document.flaws]
    assert [problem.message for problem in told] == [
        "duplicate key 'x', first on line 1",
        "a key may have no more than 1024 characters",
    ]
    assert max(len(str(problem)) for problem in told) < 300 + len(str(tmp_path))


def test_so_many_flaws_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="more than 1000 mistakes") as caught:
        read_yaml(written(tmp_path, "a: !x 1\nb:\n" + "  - !x 1\n" * 2_000))
    assert len(caught.value.problems) == 1_001
