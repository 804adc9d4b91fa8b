"""What is told of an exception, whatever its text is and wherever the process stands."""

import shutil
from pathlib import Path

import pytest

from agentic_backend.disclosure.exception_detail import place_of, text_of


def test_a_long_text_without_a_space_is_told_as_far_as_it_goes() -> None:
    assert text_of(ValueError("x" * 9_000)) == "x" * 1_999 + "…"
    assert text_of(ValueError("x-" * 4_500)).startswith("x-x-")


@pytest.mark.parametrize("before", [1_990, 2_990, 2_999])
def test_no_half_of_a_secret_is_told(before: int) -> None:
    secret = "quokkaberry-" * 20
    assert "quokka" not in text_of(ValueError("x" * before + secret + "y" * 9_000), [secret])
    assert "quokka" not in text_of(ValueError("sk-" + "x" * (before - 3) + " " + secret), [secret])


def test_a_place_is_told_though_the_working_directory_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(ValueError) as caught:
        raise ValueError
    place = place_of(caught.value)
    assert place is not None and "test_exception_detail.py:" in place
