"""What operators see of documents and of answers from them."""

from agentic_backend.application import Metric

WAY_SECONDS = Metric(
    "way_seconds", "histogram", "How long a way of searching took for a question.", labels=("way", "outcome")
)
"""`outcome` is `done` or `failed`."""
READ = Metric("documents_read", "counter", "Documents that were read.", labels=("outcome",))
"""`ready`, `without_vectors` or `failed`."""
WAITING = Metric("documents_waiting", "gauge", "Documents of all people that wait to be read or to go.", together="max")
STALLED = Metric(
    "ingestion_stalled_seconds",
    "gauge",
    "How long documents have waited to be read or to go without that any of them did.",
    together="max",
)
JUDGED = Metric("answers_judged", "counter", "Answers that the judge has looked at.", labels=("outcome",))
"""`supported`, `unsupported` or `withheld`."""
REMOVED = Metric("citations_removed", "counter", "Citations of nothing, and links, that were removed.")

METRICS = (WAY_SECONDS, READ, WAITING, STALLED, JUDGED, REMOVED)
