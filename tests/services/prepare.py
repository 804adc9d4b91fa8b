"""Fetches and builds the services of the tests, once per machine: this takes minutes, which no test has.

Run as `python -m services.prepare` in `tests/`. Where a service can't be had, its tests are skipped; with CI=true this
fails.
"""

import sys

import pytest
from services.ag_ui_client import ag_ui_modules
from services.asyncapi_parser import asyncapi_parser
from services.axe import axe_program
from services.ferretdb import ferretdb_build
from services.helm import helm_build
from services.keycloak import keycloak_distribution
from services.mcp_clients import mcp_modules
from services.mcp_everything import everything_program
from services.mongo_java import mongo_java_build
from services.openai_client import openai_modules
from services.typescript import typescript_modules

_BUILDS = (
    mongo_java_build,
    keycloak_distribution,
    everything_program,
    asyncapi_parser,
    axe_program,
    mcp_modules,
    ag_ui_modules,
    openai_modules,
    typescript_modules,
    ferretdb_build,
    helm_build,
)


def prepare() -> int:
    """The exit code: 1 if CI must not go on."""
    failed = False
    for build in _BUILDS:
        try:
            build()
        except pytest.skip.Exception as missing:
            print(f"without it tests are skipped: {missing}", file=sys.stderr)
        except pytest.fail.Exception as missing:
            print(missing, file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(prepare())
