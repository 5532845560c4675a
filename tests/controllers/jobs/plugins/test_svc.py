from __future__ import annotations

from tests.controllers.jobs.builders import plugin_objects, plugin_pod


def test_svc_sets_host_names_and_mounts_the_host_list() -> None:
    tasks = {"name": "t", "replicas": 2}, {"name": "w-1", "replicas": 1}
    made = plugin_pod("t", 0, *tasks, svc=[])
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("j-t-0", "j")
    container = made["spec"]["containers"][0]
    assert [each["name"] for each in container["env"]] == ["VC_T_HOSTS", "VC_T_NUM", "VC_W_1_HOSTS", "VC_W_1_NUM"]
    assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "j-svc"}]
    found = plugin_objects(*tasks, svc=["--publish-not-ready-addresses"])
    assert found.keys() == {"Service j", "NetworkPolicy j", "ConfigMap j-svc"}
    assert found["Service j"]["spec"]["publishNotReadyAddresses"] is True
    assert found["ConfigMap j-svc"]["data"]["w_1.host"] == "j-w-1-0.j"
    assert found["ConfigMap j-svc"]["data"]["VC_T_HOSTS"] == "j-t-0.j,j-t-1.j"
    assert "NetworkPolicy j" not in plugin_objects(svc=["--disable-network-policy=true"])
