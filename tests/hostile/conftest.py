"""What the hostile tests may use: more time, and a directory for servers whose agents do what they are told."""

from pathlib import Path

import pytest
from hostile.sizes import TIMEOUT_S
from support.fault_agents import write_catalog


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_catalog(tmp_path)
    return tmp_path
