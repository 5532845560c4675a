"""aiohttp, imported without loading the certificates of the system.

aiohttp creates two TLS contexts when it is imported, and loads all certificates of the system into each. That takes
more time than everything else in its import. Mooring passes its own contexts to aiohttp, but plugins may use those of
aiohttp. So they load the certificates when they are used first. This has no effect if aiohttp was imported before: all
modules of Mooring import aiohttp from here.
"""

import ssl
from typing import Any

__all__ = ["LateCertificates", "aiohttp", "web"]


class LateCertificates(ssl.SSLContext):
    """A context that loads the certificates of the system for the first connection. Then it is an ordinary context."""

    def wrap_bio(self, *args: Any, **keywords: Any) -> ssl.SSLObject:
        """Wrap the buffers of a connection."""
        return self._loaded().wrap_bio(*args, **keywords)

    def wrap_socket(self, *args: Any, **keywords: Any) -> ssl.SSLSocket:
        """Wrap a socket."""
        return self._loaded().wrap_socket(*args, **keywords)

    def cert_store_stats(self) -> dict[str, int]:
        """Return the numbers of loaded certificates."""
        return self._loaded().cert_store_stats()

    def get_ca_certs(self, *args: Any, **keywords: Any) -> Any:
        """Return the loaded certificates."""
        return self._loaded().get_ca_certs(*args, **keywords)

    def _loaded(self) -> ssl.SSLContext:
        ssl.SSLContext.set_default_verify_paths(self)
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]  # the base class, with the same layout
        return self


def _load_later(context: ssl.SSLContext) -> None:
    if type(context) is ssl.SSLContext:
        context.__class__ = LateCertificates
    else:
        super(ssl.SSLContext, context).set_default_verify_paths()


# The class inherits this method from C. While it has its own, contexts load nothing.
ssl.SSLContext.set_default_verify_paths = _load_later  # type: ignore[method-assign, assignment]
try:
    import aiohttp
    from aiohttp import web
finally:
    del ssl.SSLContext.set_default_verify_paths
