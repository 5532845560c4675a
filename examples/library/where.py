"""Mooring as a library: schedule until one pod is bound, and print the scores of its node.

python examples/library/where.py KUBECONFIG NAMESPACE/POD
"""

import asyncio
import sys
from pathlib import Path

from mooring import Scheduler, SchedulerError

NODE_NUMBER = Path(__file__).parents[1] / "plugins" / "nodenumber" / "nodenumber.py"


async def where(kubeconfig: str, pod: str) -> str:
    """Schedule until the pod is bound, and return its node and score."""
    scheduler = Scheduler(kubeconfig=kubeconfig, custom_plugin_files={"NodeNumber": NODE_NUMBER}, leader_elect=False)
    async with scheduler:
        await scheduler.ready()
        while True:
            found = scheduler.explain(pod)
            if found is not None and found.state == "bound" and found.decision is not None:
                best = found.decision.candidates[0]
                return (
                    f"{pod} is on {found.node}: NodeNumber gave it {best.scores['NodeNumber']} of {best.total} points"
                )
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    try:
        print(asyncio.run(where(*sys.argv[1:3])))
    except SchedulerError as error:
        sys.exit(str(error))
