"""A module that agents of the database may name; what it imports is not its own."""

import os  # noqa: F401
from os import system
from subprocess import Popen  # noqa: F401

from support.test_agents import echo_graph, raising_graph  # noqa: F401

shell = system
