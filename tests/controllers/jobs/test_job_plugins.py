from __future__ import annotations

import pytest

from mooring.controllers.jobs.job_objects import pod_document
from mooring.controllers.jobs.job_plugins import PLUGINS, PluginError
from tests.controllers.jobs.builders import job


def test_svc_sets_host_names_and_mounts_the_host_list() -> None:
    found = job({"replicas": 2}, {"name": "w-1", "replicas": 1}, plugins={"svc": []})
    pod = pod_document(found, found.spec.tasks[0], 0, [PLUGINS["svc"](())])
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-t-0", "j")
    container = pod["spec"]["containers"][0]
    assert [each["name"] for each in container["env"]] == ["VC_T_HOSTS", "VC_T_NUM", "VC_W_1_HOSTS", "VC_W_1_NUM"]
    assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "j-svc"}]
    with pytest.raises(PluginError, match="--publish-not-ready-addresses"):
        PLUGINS["svc"](("--publish-not-ready-adresses",))
