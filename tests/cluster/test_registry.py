"""The registry."""

import pytest

from tests.cluster.conftest import PODS, Client, make, pod

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_created_object_is_complete(client: Client) -> None:
    """The server gives identity and defaults, as Kubernetes does."""
    created = await client.create(PODS, pod("a"))
    metadata, spec = created["metadata"], created["spec"]
    assert metadata["namespace"] == "default"
    assert metadata["generation"] == 1
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert spec["restartPolicy"] == "Always"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["priority"] == 0
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert await client.get(f"{PODS}/a") == created


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"metadata": {}}, 422, 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'),
        ({"apiVersion": "v2"}, 400, "the API version in the data (v2) does not match the expected API version (v1)"),
        (
            {"metadata": {"name": "p", "namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"metadata": {"name": "p", "resourceVersion": "7"}},
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            {"spec": {"containers": [{"name": 5}]}},
            400,
            (
                'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field'
                " Container.spec.containers.name of type string"
            ),
        ),
        (
            {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "1x"}}}]}},
            400,
            (
                'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression'
                " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
        (
            {"spec": {"containers": [{"name": "c", "image": "x", "wat": 1}], "foo": {}}},
            400,
            (
                'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field'
                ' "spec.containers[0].wat", unknown field "spec.foo"'
            ),
        ),
        (
            {"spec": {"containers": [{"name": "c", "image": "x"}], "priorityClassName": "nope"}},
            403,
            'pods "p" is forbidden: no PriorityClass with name nope was found',
        ),
    ],
)
async def test_bad_objects_are_refused(client: Client, change: dict[str, object], code: int, message: str) -> None:
    """Each with Kubernetes' own words."""
    answer = await client.ask("POST", f"{PODS}?fieldValidation=Strict", {**pod(), **change})
    assert (answer.status, answer.message) == (code, message)


async def test_names_are_taken_once(client: Client) -> None:
    """And a missing namespace is said to be missing."""
    await client.create(PODS, pod("a"))
    answer = await client.ask("POST", PODS, pod("a"))
    assert (answer.status, answer.message) == (409, 'pods "a" already exists')
    answer = await client.ask("POST", "/api/v1/namespaces/nope/pods", pod("a"))
    assert (answer.status, answer.message) == (404, 'namespaces "nope" not found')
    answer = await client.ask("GET", "/apis/apps/v1/namespaces/default/deployments/x")
    assert (answer.status, answer.message) == (404, 'deployments.apps "x" not found')


async def test_generated_names(client: Client) -> None:
    """They begin as asked and end with five letters."""
    body = {**pod(), "metadata": {"generateName": "web-"}}
    names = {(await client.create(PODS, body))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_updates_check_the_version(client: Client) -> None:
    """Who writes over a version that is not the last one gets a conflict."""
    old = await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a", data={"x": "1"}))
    new = await client.ask("PUT", f"{CONFIG_MAPS}/a", {**old, "data": {"x": "2"}})
    assert new.body["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
    answer = await client.ask("PUT", f"{CONFIG_MAPS}/a", {**old, "data": {"x": "3"}})
    assert answer.status == 409
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to'
        " the latest version and try again"
    )
    unconditional = await client.ask("PUT", f"{CONFIG_MAPS}/a", make("v1", "ConfigMap", "a", data={"x": "4"}))
    assert unconditional.body["data"] == {"x": "4"}


async def test_an_update_that_changes_nothing_is_no_change(client: Client) -> None:
    """The version stays, and no watch hears of it."""
    old = await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a", data={"x": "1"}))
    again = await client.ask("PUT", f"{CONFIG_MAPS}/a", old)
    assert again.body == old
    assert (await client.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})) == old


async def test_leases_cannot_be_overwritten_blindly(client: Client) -> None:
    """Or two leaders would both believe that they won."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = make("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "me"})
    await client.create(path, lease)
    answer = await client.ask("PUT", f"{path}/l", lease)
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


async def test_dry_runs_change_nothing(client: Client) -> None:
    """But are checked and answered as if they did."""
    answer = await client.ask("POST", f"{PODS}?dryRun=All", pod("a"))
    assert answer.status == 201
    assert answer.body["metadata"]["uid"]
    assert (await client.ask("GET", f"{PODS}/a")).status == 404
    await client.create(PODS, pod("b"))
    await client.delete(f"{PODS}/b?dryRun=All")
    assert (await client.ask("GET", f"{PODS}/b")).status == 200


async def test_generation_counts_changes_of_the_spec(client: Client) -> None:
    """Labels and status do not count."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
    }
    await client.create(path, make("apps/v1", "Deployment", "d", spec=spec))
    labelled = await client.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["metadata"]["generation"] == 1
    scaled = await client.patch(f"{path}/d", {"spec": {"replicas": 3}, "status": {"replicas": 7}})
    assert scaled["metadata"]["generation"] == 2
    assert scaled["status"] == {}
    status = await client.patch(f"{path}/d/status", {"spec": {"replicas": 9}, "status": {"replicas": 7}})
    assert (status["spec"]["replicas"], status["status"], status["metadata"]["generation"]) == (3, {"replicas": 7}, 2)
