"""Writes docs/gameday.md: the catalogue of faults as a table, with what `make gameday` has measured.

A program: `python -m gameday.page`, in tests/.
"""

from gameday.fault import CHECKOUT, Fault
from gameday.faults import BY_PROMTOOL_ALONE, FAULTS
from gameday.figures import measured

PAGE = CHECKOUT / "docs" / "gameday.md"

HEAD = """\
# Game day

What goes wrong around a server, and what leads to its cause. `make gameday` makes each of these faults happen to a real
server with real neighbours on this machine, scraped every second by a real Prometheus with the alerts as they are
shipped, and writes this page; `tests/gameday` does the same in minutes, with shorter ranges. Each time the alert's
expression is false before and true during the fault, the line of the log is there and names the cause, readiness is as
told, and all is well again afterwards.

*Seconds* are from the fault to the alert's expression; a scrape interval of your own, and `for`, come on top. Panels
are those of the dashboards in `config/grafana/dashboards`; events of the log are explained in [logs.md](logs.md).

| fault | what users feel | alert, and where its runbook leads on | seconds | `for` | panel | log | ready |
|---|---|---|---|---|---|---|---|
"""
ALONE = """
## Alerts that no fault of these fires

Tests of their rules with promtool show when they fire and when they are silent, `config/prometheus/rules/tests`.

| alert | why |
|---|---|
"""


def row(fault: Fault, seconds: int | None) -> str:
    dashboard, title = fault.panel
    fields = ", ".join(f"`{name}`" for name in fault.fields)
    cells = [
        fault.name,
        fault.felt,
        f"[{fault.alert}](runbooks/{fault.runbook_file.name}): “{fault.runbook}”",
        "not measured" if seconds is None else str(seconds),
        fault.holds_for,
        f"{dashboard.removesuffix('.json')}: {title}",
        f"`{fault.log}`" + (f" ({fields})" if fields else ""),
        f"`{fault.ready}`",
    ]
    return "| " + " | ".join(cells) + " |\n"


def page() -> str:
    seconds = measured()
    rows = [row(fault, seconds.get(fault.name)) for fault in FAULTS]
    alone = [f"| {alert} | {why} |\n" for alert, why in BY_PROMTOOL_ALONE.items()]
    return "".join([HEAD, *rows, ALONE, *alone])


if __name__ == "__main__":
    PAGE.write_text(page())
