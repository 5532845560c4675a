"""A scheduler extender: pods that request `example.com/licence` are placed in racks that have enough licences.

It listens on 127.0.0.1 and serves /filter and /prioritize.
Run it: `python licences.py --port 8901 rack-a=2 rack-b=5`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RESOURCE = "example.com/licence"
Object = dict[str, Any]


class Licences:
    """The number of licences of each rack. The label `rack` of a node names its rack."""

    def __init__(self, racks: Mapping[str, int]) -> None:
        self._racks = racks

    def filter(self, args: Object) -> Object:
        """Return the nodes in racks with enough licences, and a reason for each other node."""
        needed, nodes = wanted(args["Pod"]), args["Nodes"]["items"]
        failed = {
            node["metadata"]["name"]: "node(s) had too few licences in their rack"
            for node in nodes
            if self._available(node) < needed
        }
        passing = [node for node in nodes if node["metadata"]["name"] not in failed]
        return {"Nodes": {"items": passing}, "FailedAndUnresolvableNodes": failed}

    def prioritize(self, args: Object) -> list[Object]:
        """Score nodes from 0 to 10 by the licences of their rack."""
        most = max(self._racks.values(), default=0) or 1
        return [
            {"Host": node["metadata"]["name"], "Score": 10 * self._available(node) // most}
            for node in args["Nodes"]["items"]
        ]

    def _available(self, node: Object) -> int:
        return self._racks.get(node["metadata"].get("labels", {}).get("rack", ""), 0)


def wanted(pod: Object) -> int:
    """Return the number of licences that a pod requests."""
    requests = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
    return sum(int(each.get(RESOURCE, 0)) for each in requests)


def make_server(port: int, licences: Licences) -> ThreadingHTTPServer:
    """Return a server for the two verbs."""
    verbs: dict[str, Callable[[Object], Any]] = {"/filter": licences.filter, "/prioritize": licences.prioritize}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            verb = verbs.get(self.path)
            if verb is None:
                self.send_error(404)
                return
            args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(verb(args)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8901)
    parser.add_argument("racks", nargs="+", metavar="RACK=LICENCES")
    options = parser.parse_args()
    pairs = (rack.rpartition("=") for rack in options.racks)
    server = make_server(options.port, Licences({name: int(count) for name, _, count in pairs}))
    sys.stdout.write(f"listening on http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
