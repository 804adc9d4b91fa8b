"""Services that tests need on the machine: without one its tests are skipped, but in CI they fail."""

import os

import pytest


def require(service: str, available: bool, reason: str) -> None:
    """Skip the running test if `service` is not available; with CI=true fail it, because CI must run every test."""
    if available:
        return
    problem = f"needs {service}: {reason}"
    if os.environ.get("CI") == "true":
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)
