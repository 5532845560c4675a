from __future__ import annotations

import msgspec

from mooring.controllers.jobs.policies import Request
from mooring.controllers.jobs.tracked_job import TrackedJob
from tests.controllers.jobs.builders import job, job_pod


def test_deleting_an_old_pod_keeps_a_new_one_of_the_same_name() -> None:
    tracked, first, second = TrackedJob(), job_pod("Running", uid="1"), job_pod("Pending", uid="2")
    tracked.apply(None, first)
    tracked.apply(None, second)
    tracked.deleted.add("1")
    tracked.apply(first, None)
    assert tracked.pods == {"j-t-0": second}
    assert tracked.deleted == set()


def test_deleted_victims_count_as_terminating_even_if_they_are_gone() -> None:
    """Volcano's suite waits for a job that is Restarting with a terminating pod."""
    tracked, found = TrackedJob(), job(metadata={"uid": ""})
    first, second = job_pod("Running", uid="1"), job_pod("Pending", uid="2")
    tracked.apply(None, first)
    tracked.deleted.add("1")
    assert tracked.counts(found, [first]).terminating == 1
    tracked.apply(first, None)
    assert tracked.counts(found, [first]).terminating == 1
    tracked.apply(None, second)  # the new pod of the same name
    counts = tracked.counts(found, [first])
    assert (counts.pending, counts.terminating) == (1, 1)
    assert tracked.counts(found).terminating == 0


def test_a_job_of_the_same_name_resets_requests() -> None:
    tracked, first = TrackedJob(), job(metadata={"uid": "1"})
    assert tracked.reset_for(first)
    tracked.requests.append(Request(event="PodFailed"))
    assert not tracked.reset_for(first)
    assert tracked.requests
    assert tracked.reset_for(job(metadata={"uid": "2"}))
    assert not tracked.requests


def test_the_written_status_wins_until_the_watch_catches_up() -> None:
    tracked, watched = TrackedJob(), job(metadata={"resourceVersion": "5"})
    written = msgspec.structs.replace(job(metadata={"resourceVersion": "6"}), status=job(version=9).status)
    tracked.status_written(written)
    assert tracked.current(watched).status.version == 9
    later = job(metadata={"resourceVersion": "7"}, version=10)
    assert tracked.current(later) is later
    assert tracked.current(watched) is watched
