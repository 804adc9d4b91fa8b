"""The product without turns for streams: each goes on for as long as it has chunks. Arguments as of the product."""

import math
import sys

from agentic_backend import cli
from agentic_backend.streaming.model import stream_turns

stream_turns._SLICE_S = math.inf
sys.exit(cli.main())
