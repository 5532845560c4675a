"""Declarations of kinds."""

from tests.cluster.conftest import Client, make, template


async def test_what_nothing_is_done_about_is_said(live: Client) -> None:
    """A CronJob is stored, and its maker is told that this is all."""
    inner = template()
    inner["spec"]["restartPolicy"] = "Never"
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": inner}}}
    answer = await live.ask(
        "POST", "/apis/batch/v1/namespaces/default/cronjobs", make("batch/v1", "CronJob", "c", spec=spec)
    )
    assert answer.status == 201
    assert any("has no controller for CronJobs" in each for each in answer.warnings)
