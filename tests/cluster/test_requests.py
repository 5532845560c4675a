"""Creating, reading, changing and deleting objects over HTTP."""

import pytest

from tests.cluster.conftest import JSON_PATCH, MERGE_PATCH, PODS, STRATEGIC_PATCH, Client, make, pod

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


async def test_unknown_fields_are_dropped_with_a_warning(client: Client) -> None:
    """Unless the client asks to be strict, or to be silent."""
    answer = await client.ask("POST", PODS, pod("a", foo=1))
    assert answer.warnings == ['299 - "unknown field \\"spec.foo\\""']
    assert "foo" not in answer.body["spec"]
    answer = await client.ask("POST", f"{PODS}?fieldValidation=Ignore", pod("b", foo=1))
    assert answer.warnings == []


async def test_doubled_fields_are_found(client: Client) -> None:
    """A decoder would silently take the last one."""
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}'
    answer = await client.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert 'duplicate field "metadata.name"' in answer.message


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


@pytest.mark.parametrize(
    ("content", "patch", "expected"),
    [
        (MERGE_PATCH, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (STRATEGIC_PATCH, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (JSON_PATCH, [{"op": "replace", "path": "/data", "value": {"z": "9"}}], {"z": "9"}),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "move", "from": "/data/a", "path": "/data/q"}],
            {"b": "2", "q": "1"},
        ),
    ],
)
async def test_patches(client: Client, content: str, patch: object, expected: dict[str, str]) -> None:
    """Of three kinds; the fourth is server-side apply."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a", data={"a": "1", "b": "2"}))
    assert (await client.patch(f"{CONFIG_MAPS}/a", patch, content))["data"] == expected


async def test_a_patch_with_a_version_is_conditional(client: Client) -> None:
    """As `kubectl edit` sends it."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a"))
    answer = await client.ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"resourceVersion": "1"}}, content=MERGE_PATCH)
    assert answer.status == 409


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


async def test_deletion_waits_for_finalizers(client: Client) -> None:
    """The object stays, marked, until the last one is gone; none may be added meanwhile."""
    body = {**make("v1", "ConfigMap", "a"), "metadata": {"name": "a", "finalizers": ["ex.io/f"]}}
    await client.create(CONFIG_MAPS, body)
    marked = await client.delete(f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    answer = await client.ask(
        "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["ex.io/f", "ex.io/g"]}}, content=MERGE_PATCH
    )
    assert answer.status == 422
    await client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": []}})
    assert (await client.ask("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_pods_are_deleted_gracefully(client: Client) -> None:
    """One that runs somewhere gets time; one that does not is gone at once."""
    await client.create(PODS, pod("bound", nodeName="n", terminationGracePeriodSeconds=7))
    await client.create(PODS, pod("free"))
    marked = await client.delete(f"{PODS}/bound")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert (await client.ask("GET", f"{PODS}/bound")).status == 200
    await client.delete(f"{PODS}/bound?gracePeriodSeconds=0")
    assert (await client.ask("GET", f"{PODS}/bound")).status == 404
    await client.delete(f"{PODS}/free")
    assert (await client.ask("GET", f"{PODS}/free")).status == 404


async def test_deletion_can_be_conditional(client: Client) -> None:
    """On the object being the one that was meant."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a"))
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}}
    answer = await client.ask("DELETE", f"{CONFIG_MAPS}/a", options)
    assert answer.status == 409
    deleted = await client.delete(f"{CONFIG_MAPS}/a")
    assert (deleted["status"], deleted["details"]["name"]) == ("Success", "a")


async def test_whole_collections_are_deleted_by_selector(client: Client) -> None:
    """What is not chosen stays."""
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        body = {**make("v1", "ConfigMap", name), "metadata": {"name": name, "labels": {"l": label}}}
        await client.create(CONFIG_MAPS, body)
    await client.delete(f"{CONFIG_MAPS}?labelSelector=l%3Dx")
    assert [each["metadata"]["name"] for each in (await client.get(CONFIG_MAPS))["items"]] == ["b"]


async def test_bodies_may_be_yaml(client: Client) -> None:
    """Dates in it stay text."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  when: '2026-01-01'\n  x: \"1\"\n"
    answer = await client.ask("POST", CONFIG_MAPS, body, content="application/yaml")
    assert answer.body["data"] == {"when": "2026-01-01", "x": "1"}


@pytest.mark.parametrize(
    "path", ["/api/v1/podz", "/apis/nope/v1/x", "/api/v1/namespaces/default/nodes", f"{PODS}/a/foo"]
)
async def test_paths_that_do_not_exist(client: Client, path: str) -> None:
    """Are told so in Kubernetes' words."""
    answer = await client.ask("GET", path)
    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")


async def test_the_server_listens_on_loopback_only_and_wants_a_token(client: Client) -> None:
    """Health is open to everybody."""
    assert client.cluster.url.startswith("https://127.0.0.1:")
    answer = await client.ask("GET", "/api/v1/pods", token="wrong")
    assert (answer.status, answer.body["reason"]) == (401, "Unauthorized")
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await client.ask("GET", path, token="wrong")).body == "ok"
