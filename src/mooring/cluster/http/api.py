"""The parts of the API server that request handlers use."""

import time
from collections.abc import Callable
from pathlib import Path

from mooring.apiserver.volcano_admission.review import AdmissionSettings
from mooring.cluster.auth.access_reviews import AccessReviews
from mooring.cluster.auth.authentication import TokenAuthenticator
from mooring.cluster.custom_resources.definitions import CustomResources
from mooring.cluster.discovery import Discovery
from mooring.cluster.errors import unavailable
from mooring.cluster.kinds import KINDS
from mooring.cluster.kinds.resource_quota import QuotaAdmission
from mooring.cluster.openapi import OpenApi
from mooring.cluster.pagination import Paginator
from mooring.cluster.persistence import DataError, SqliteJournal
from mooring.cluster.registry import Registry
from mooring.cluster.rest_mapper import RestMapper
from mooring.cluster.store import Store
from mooring.cluster.volcano_admission import VolcanoAdmission
from mooring.cluster.watch import Broadcaster


class Api:
    """The parts of the API server."""

    def __init__(
        self,
        store: Store,
        *,
        token: str,
        clock: Callable[[], float] = time.time,
        admission: AdmissionSettings | None = None,
    ) -> None:
        """``admission`` has the settings of admission of Volcano's objects; None for no admission."""
        self.store = store
        self.clock = clock
        self.mapper = RestMapper(KINDS)
        self.registry = Registry(store, self.mapper, clock=clock, quotas=QuotaAdmission(store))
        if admission is not None:
            self.registry.reviews = VolcanoAdmission(store, admission)
        self.broadcaster = Broadcaster(store)
        self.paginator = Paginator(store, clock)
        self.discovery = Discovery(self.mapper)
        self.openapi = OpenApi(self.mapper)
        self.tokens = TokenAuthenticator(token, store, clock)
        self.reviews = AccessReviews(store, self.tokens)
        self.custom = CustomResources(self.registry, self.openapi, self.broadcaster)
        #: The data folder, if there is one.
        self.data: Path | None = None
        #: Writes changes to the data folder; None without one.
        self.journal: SqliteJournal | None = None

    async def flush(self) -> None:
        """Wait until all changes are on disk, so that no client observes a change that could be lost.

        Raises ApiError if the disk is full.
        """
        if self.journal is not None and self.store.published < self.store.version:
            try:
                await self.journal.durable(self.store.version)
            except DataError as error:
                raise unavailable(str(error)) from None

    def check_writable(self) -> None:
        """Raise ApiError if changes cannot be written now."""
        if self.journal is not None and self.journal.failure is not None:
            raise unavailable(str(self.journal.failure))
