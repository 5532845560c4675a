import time
from subprocess import run

from mooring.framework import Plugin


class Blocking(Plugin):
    async def pre_bind(self, state, pod, node_name):
        time.sleep(1)
        run(["true"], check=True)
