"""The examples of docs/testing.md, in a folder of their own, pass as they stand; what one records is replayed."""

import re
from pathlib import Path

import pytest
from support.documents import DOCS, blocks
from support.pytest_process import PATIENCE_S, run_pytest

from agentic_backend import testing
from agentic_backend.testing import RecordedModel, run_agent

PAGE = DOCS / "testing.md"
PYTHON = [block for block in blocks(PAGE) if block.language == "python"]
FILES = {block.file: block.text for block in PYTHON if block.file is not None}
TESTS = sum(text.count("\ndef test_") for text in FILES.values())

UNSAID = """
def test_that_ends_too_early(scripted_model):
    scripted_model("Hello")
"""


@pytest.mark.timeout(PATIENCE_S + 60)
async def test_the_examples_pass_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(FILES) == len(PYTHON)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "test_unsaid.py").write_text(UNSAID)
    shown = run_pytest(tmp_path, "--record-models")
    assert f"{TESTS + 1} passed, 1 error in" in shown, shown
    assert "1 turns of scripted models were not asked for" in shown
    monkeypatch.syspath_prepend(tmp_path)
    model = RecordedModel(tmp_path / "recordings" / "test_it_greets.json")
    assert (await run_agent("mail_agent:MailAgent", "Hello", model=model)).final_text == "Hello from a provider."


def test_the_page_names_all_that_is_public() -> None:
    beside = {"CatalogProblems", "ModelAsk", "OpenedAgent", "ToolUse", "Unanswered", "Answers", "Call"}
    named = set(re.findall(r"\w+", PAGE.read_text()))
    assert set(testing.__all__) - named <= beside
