"""A missing service skips a test on a developer's machine and fails it in CI."""

import pytest

from support.services import require


def test_a_service_that_is_there_lets_the_test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    require("Chromium", True, "not installed")


def test_a_missing_service_skips_the_test_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs Chromium: not installed"):
        require("Chromium", False, "not installed")


def test_a_missing_service_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs Chromium: not installed"):
        require("Chromium", False, "not installed")
