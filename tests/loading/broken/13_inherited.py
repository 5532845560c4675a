import asyncio
import time

from mooring.framework import Plugin


class _Patient(Plugin):
    async def pre_bind(self, state, pod, node_name):
        time.sleep(1)


class Heir(_Patient):
    def score(self, state, pod, node):
        return 5


class SecondHeir(_Patient):
    async def run(self):
        import httpx

        def work():
            time.sleep(1)

        await asyncio.to_thread(work)
        await asyncio.to_thread(lambda: time.sleep(1))
        async with httpx.AsyncClient(timeout=httpx.Timeout(1)) as client:
            await client.get("http://localhost")
        httpx.get("http://localhost")
