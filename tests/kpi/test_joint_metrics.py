"""The metrics of several processes as those of one: what is summed, what is not, and what stays of the dead."""

from prometheus_client.parser import text_string_to_metric_families

from agentic_backend.kpi import Kpi
from agentic_backend.kpi.joint_metrics import JointMetrics
from agentic_backend.kpi.snapshot import Snapshot


def handed_over(kpi: Kpi) -> Snapshot:
    return Snapshot.decode(kpi.snapshot().encode())


def told(joint: JointMetrics, *up: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    exposition, _ = joint.exposition(up, "")
    families = text_string_to_metric_families(exposition.decode())
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_one_process_hands_over_just_what_it_exposes() -> None:
    kpi, joint = Kpi(), JointMetrics(1)
    kpi.dependencies.store_operation("append", "write", 0.1, None)
    exposition, _ = kpi.exposition("")
    joint.take(0, handed_over(kpi))
    own = {
        (one.name, tuple(sorted(one.labels.items())))
        for family in text_string_to_metric_families(exposition.decode())
        for one in family.samples
        if not one.name.startswith("process_")
    }
    assert own < told(joint, 0).keys()


def test_each_gauge_is_merged_by_its_own_rule() -> None:
    joint = JointMetrics(2)
    for worker, kpi in enumerate((Kpi(), Kpi())):
        kpi.exchanges.at_most(100)
        kpi.exchanges.waiting(7, 20.0 + worker)
        kpi.dependencies.broadcast_away(None if worker == 0 else "full")
        joint.take(worker, handed_over(kpi))
    both = told(joint, 0, 1)
    assert both["chat_running_limit", ()] == 200
    assert (both["chat_waiting_exchanges", ()], both["chat_oldest_waiting_seconds", ()]) == (7, 21)
    broadcast = ("chat_dependency_up", (("dependency", "broadcast"),))
    assert both[broadcast] == 0
    assert both["chat_dependency_away", (("dependency", "broadcast"), ("reason", "full"))] == 1
    assert told(joint, 0)[broadcast] == 1, "the other one does not answer"
    assert told(joint, 0)["chat_running_limit", ()] == 100


def test_what_dead_processes_have_counted_stays_and_takes_no_more_room() -> None:
    joint, sizes = JointMetrics(1), []
    for _ in range(20):
        kpi = Kpi()
        kpi.sessions.created("echo")
        kpi.dependencies.store_operation("append", "write", 0.1, None)
        for _ in range(2):
            joint.take(0, handed_over(kpi))
        sizes.append(len(told(joint)) + len(told(joint, 0)))
    assert len(set(sizes)) == 1
    series = told(joint)
    assert series["chat_sessions_created_total", (("agent_id", "echo"),)] == 20
    operation = (("kind", "write"), ("operation", "append"), ("outcome", "ok"))
    assert series["chat_store_operation_seconds_count", operation] == 20
    assert series["chat_store_operation_seconds_bucket", (operation[0], ("le", "0.1"), *operation[1:])] == 20
    assert series["chat_worker_up", (("worker", "0"),)] == 0
    assert not any(name.startswith("process_") for name, _ in series), "nothing of a process that is gone"
