"""A scheduler in a program, with a plugin from a file."""

import argparse
import asyncio
import signal

from mooring import Scheduler


async def main(kubeconfig: str) -> None:
    scheduler = Scheduler(
        config="examples/stories/s2/library.yaml",
        kubeconfig=kubeconfig,
        custom_plugin_files={"NodeNumber": "examples/plugins/nodenumber/nodenumber.py"},
    )
    task = asyncio.create_task(scheduler.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait({task})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    asyncio.run(main(parser.parse_args().kubeconfig))
