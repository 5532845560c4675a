"""The extender's program: `process.py RULES LOG PORT_FILE`. It reads the rules anew for every request.

Rules are a JSON object, verb -> behaviour, or the end of the path (`name/verb`) where several extenders are played:

    filter      {"reject": {node: why}, "unresolvable": {node: why}, "drop": [node], "add": [node]}
    prioritize  {"scores": {node: number}}
    preempt     {"nodes": [node]}: these candidates stay, with all their victims; all of them if it is absent
    bind        {"server": URL, "token": TOKEN}: bind there; otherwise only say so
    any verb    {"status": 500}, {"text": "anything"}, {"error": "text"}, {"cut": true}, {"delay": seconds}
"""

from __future__ import annotations

import argparse
import json
import ssl
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_LOCK = threading.Lock()


class Server(ThreadingHTTPServer):
    def handle_error(self, *_args: object) -> None:
        """Those who ask may go away."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rules", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("port_file", type=Path)
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--client-ca")
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), make_handler(options.rules, options.log))
    server.daemon_threads = True
    if options.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.cert, options.key)
        if options.client_ca:
            context.load_verify_locations(options.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    options.port_file.write_text(str(server.server_address[1]))
    server.serve_forever()


def make_handler(rules: Path, log: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.loads(text)
            note = {"path": self.path, "type": self.headers["Content-Type"], "body": body}
            with _LOCK, log.open("a") as file:
                file.write(json.dumps(note) + "\n")
            verb = self.path.rpartition("/")[2]
            every = json.loads(rules.read_text())
            rule = every.get("/".join(self.path.split("/")[-2:]), every.get(verb, {}))
            time.sleep(rule.get("delay", 0))
            if rule.get("cut"):
                self.close_connection = True
                self.connection.close()
                return
            answer = rule["text"] if "text" in rule else json.dumps(ANSWERS[verb](rule, body))
            self._answer(rule.get("status", 200), answer.encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Be quiet."""

    return Handler


def answer_filter(rule: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if "error" in rule:
        return {"Error": rule["error"]}
    refused = {*rule.get("reject", ()), *rule.get("unresolvable", ()), *rule.get("drop", ())}
    answer: dict[str, Any] = {"FailedNodes": rule.get("reject", {})}
    answer["FailedAndUnresolvableNodes"] = rule.get("unresolvable", {})
    if body["NodeNames"] is not None:
        answer["NodeNames"] = [name for name in body["NodeNames"] if name not in refused] + rule.get("add", [])
    else:
        items = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] not in refused]
        answer["Nodes"] = {"items": items + [{"metadata": {"name": name}} for name in rule.get("add", [])]}
    return answer


def answer_prioritize(rule: dict[str, Any], body: dict[str, Any]) -> list[dict[str, Any]]:
    names = body["NodeNames"]
    if names is None:
        names = [node["metadata"]["name"] for node in body["Nodes"]["items"]]
    return [{"Host": name, "Score": rule.get("scores", {}).get(name, 0)} for name in names]


def answer_preempt(rule: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    meta = body["NodeNameToMetaVictims"]
    if meta is None:
        meta = {
            node: {**victims, "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]}
            for node, victims in body["NodeNameToVictims"].items()
        }
    return {"NodeNameToMetaVictims": {node: meta[node] for node in rule.get("nodes", meta)}}


def answer_bind(rule: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if "error" in rule:
        return {"Error": rule["error"]}
    if "server" in rule:
        url = f"{rule['server']}/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": body["PodName"], "uid": body["PodUID"]},
            "target": {"kind": "Node", "name": body["Node"]},
        }
        headers = {"Authorization": f"Bearer {rule['token']}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(binding).encode(), headers)
        with urllib.request.urlopen(request, context=ssl._create_unverified_context()):
            pass
    return {}


ANSWERS = {"filter": answer_filter, "prioritize": answer_prioritize, "preempt": answer_preempt, "bind": answer_bind}

if __name__ == "__main__":
    main()
