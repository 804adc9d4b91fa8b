"""Reloads, apart from what they read."""

import logging
from pathlib import Path
from typing import Any

import pytest

from agentic_backend.agents.models.chat_models import load_models
from agentic_backend.config.loading import load_settings
from agentic_backend.server.reload.configuration import Configuration, ConfigurationFiles, Reread
from agentic_backend.server.reload.hangups import Hangups
from agentic_backend.server.reload.reloads import Reloads


class Vanishing(ConfigurationFiles):
    """Files of which one is removed while they are read."""

    def reread(self, running: Configuration, models: Any) -> Reread:
        Path("removed").read_bytes()
        return super().reread(running, models)


def test_a_worker_whose_files_can_not_be_read_again_starts_with_what_its_parent_has_read(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings, hangups = load_settings(None, {}), Hangups()
    files = Vanishing(None, {})
    configuration = files.read(settings)
    reloads = Reloads(files, configuration, load_models(settings.models, settings.openai_model), hangups)
    hangups.count = 1
    reloads.catch_up()
    [told] = [record for record in caplog.records if record.message == "catalog not reloaded"]
    assert told.levelno == logging.ERROR and told.exc_info is not None and told.exc_info[0] is FileNotFoundError
