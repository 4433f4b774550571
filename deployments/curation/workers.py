"""The three workers of one replica, each in a loop of its own."""

import asyncio

from deployments.curation.curator import Curator
from deployments.curation.erasing import Eraser
from deployments.curation.loop import Loop
from deployments.curation.sweeper import Sweeper
from deployments.services import Services
from deployments.settings import CuratorSettings


class Workers:
    """`name` must be unlike every other worker's: it is what a lease in SQL is held by."""

    def __init__(self, name: str, services: Services, settings: CuratorSettings) -> None:
        self.curator = Curator(name, services, settings)
        self.eraser = Eraser(name, services, settings)
        self.sweeper = Sweeper(services, settings)
        self._curating = Loop("curator", self.curator.step, settings.poll_s)
        self._erasing = Loop("eraser", self.eraser.step, settings.poll_s)
        self._sweeping = Loop("sweeper", self.sweeper.step, settings.sweep_s)
        services.wake_curator = self.wake

    def wake(self) -> None:
        """Something was written or is to be erased. The Sweeper keeps its own time."""
        self._curating.wake()
        self._erasing.wake()

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._curating.run(), self._erasing.run(), self._sweeping.run())
