"""Python runs this at startup if the directory is in PYTHONPATH."""

import function_recorder

function_recorder.begin()
