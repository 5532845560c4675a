from __future__ import annotations

from tests.controllers.jobs.builders import WORKER, plugin_pod


def test_hcclrank_uses_the_rank_of_pytorch_or_counts() -> None:
    def rank(task: str, index: int, **plugins: list[str]) -> str:
        tasks = {"name": "master", "replicas": 2}, WORKER, {"name": "other", "replicas": 1}
        return str(plugin_pod(task, index, *tasks, **plugins)["metadata"]["annotations"].get("hccl/rankIndex", ""))

    assert [rank("master", 1, hcclrank=[]), rank("worker", 1, hcclrank=[]), rank("other", 0, hcclrank=[])] == [
        "1", "3", "",
    ]  # fmt: skip
    assert rank("worker", 1, hcclrank=[], pytorch=[]) == "2"
