"""What there is to ask Prometheus for: the metrics of docs/metrics.md, the rules' records, and their labels."""

import re
from pathlib import Path

import yaml

_CHECKOUT = Path(__file__).parents[2]
_RULES = sorted((_CHECKOUT / "config" / "prometheus" / "rules").glob("*.yaml"))
# What Prometheus adds, and what the rules do.
_ADDED_LABELS = {"job", "instance", "slo", "le", "alertname"}
_METRIC = re.compile(r"\b((?:chat|gen_ai|process|python|instance_slo|slo)[a-z_:0-9]*[a-z0-9])\b(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right) ?\(([^)]*)\)")

# Those of every Prometheus client in Python, and of Prometheus.
OF_THE_CLIENT = re.compile(
    r"process_(?:cpu_seconds_total|open_fds|max_fds|resident_memory_bytes|virtual_memory_bytes|start_time_seconds)"
    r"|python_gc_\w+"
)
LABELS_OF_THE_CLIENT = {"worker", "generation"}
"""`worker` where there are several processes."""


def _documented() -> dict[str, set[str]]:
    metrics = {}
    text = (_CHECKOUT / "docs" / "metrics.md").read_text()
    for line in re.sub(r"### Which names are old\?.*?(?=^##)", "", text, flags=re.DOTALL | re.MULTILINE).splitlines():
        if re.match(r"\| `(?:chat|gen_ai)_", line):
            name, kind, labels = (cell.strip(" `") for cell in line.split("|")[1:4])
            for series in [f"{name}_{end}" for end in ("bucket", "count", "sum")] if kind == "histogram" else [name]:
                metrics[series] = set(re.findall(r"\w+", labels))
    return metrics


METRICS = _documented()
"""Each metric of docs/metrics.md, by every name of its series, with its labels."""
_RECORDED = {
    rule["record"]
    for path in _RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "record" in rule
}


def unknown_in(text: str) -> set[str]:
    """Metrics that there aren't, and labels that the metric beside them doesn't have."""
    unknown = set()
    for name, selector in _METRIC.findall(text):
        if name in _RECORDED or OF_THE_CLIENT.fullmatch(name):
            continue
        # In a sentence a histogram goes by its own name.
        labels = METRICS.get(name, METRICS.get(f"{name}_count"))
        if labels is None:
            unknown.add(name)
        else:
            unknown |= {f"{name}: {label}" for label in re.findall(r"(\w+) ?(?:=|!)", selector)} - {
                f"{name}: {label}" for label in labels | _ADDED_LABELS
            }
    return unknown


def unknown_in_query(query: str) -> set[str]:
    """As `unknown_in`; labels that are grouped by have to belong to one of the query's metrics."""
    names = {name for name, _ in _METRIC.findall(query)}
    known = _ADDED_LABELS.union(*(METRICS.get(name, set()) for name in names))
    if any(OF_THE_CLIENT.fullmatch(name) for name in names):
        known |= LABELS_OF_THE_CLIENT
    grouped = {label for group in _GROUPED.findall(query) for label in re.findall(r"\w+", group)}
    return unknown_in(_GROUPED.sub("", query)) | (grouped - known)
