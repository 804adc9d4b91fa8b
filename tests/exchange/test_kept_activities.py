"""Which activities of a run are kept for who reads the session later, and how many."""

import pytest

from agentic_backend.exchange.write.kept_activities import BYTES_AT_MOST, KeptActivities
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.protocol.exchange_pages import ACTIVITIES_PER_EXCHANGE
from agentic_backend.streaming.transcode.drafts import ActivityDraft
from tests.stores.samples import a_session, an_exchange


@pytest.fixture
def kept() -> KeptActivities:
    return KeptActivities(an_exchange(a_session()), utc_now)


def step(**data: object) -> ActivityDraft:
    return ActivityDraft("progress", {"step": "Reading", **data})


def count_kept(kept: KeptActivities, activity: ActivityDraft, times: int) -> int:
    return sum(kept.record_of(activity, seq, 0) is not None for seq in range(times))


def test_progress_is_kept_only_if_it_says_so(kept: KeptActivities) -> None:
    assert kept.record_of(step(), 1, 0) is None
    assert kept.record_of(step(kept="yes"), 2, 0) is None
    record = kept.record_of(step(kept=True), 3, 7)
    assert record is not None
    assert (record.seq, record.after_rank, record.data) == (3, 7, {"step": "Reading", "kept": True})
    assert kept.record_of(ActivityDraft("agent_switch", {"from": "a", "to": "b"}), 4, 7) is not None


def test_a_run_keeps_only_so_many(kept: KeptActivities) -> None:
    assert count_kept(kept, ActivityDraft("handoff", {}), 1_000) == ACTIVITIES_PER_EXCHANGE


def test_a_run_keeps_only_so_much(kept: KeptActivities) -> None:
    assert count_kept(kept, step(kept=True, text="x" * 5_000), 10) == BYTES_AT_MOST // 5_040
    assert kept.record_of(step(kept=True), 99, 0) is not None


def test_a_run_after_a_pause_goes_on_counting(kept: KeptActivities) -> None:
    before = [kept.record_of(step(kept=True, text="x" * 5_000), seq, 0) for seq in range(2)]
    later = KeptActivities(an_exchange(a_session()), utc_now, [one for one in before if one is not None])
    assert count_kept(later, step(kept=True, text="x" * 5_000), 10) == BYTES_AT_MOST // 5_040 - 2
    assert count_kept(later, ActivityDraft("handoff", {}), 1_000) == ACTIVITIES_PER_EXCHANGE - 3
