"""`python -m agentic_backend` is the command line."""

import sys

from agentic_backend.cli import main

sys.exit(main())
