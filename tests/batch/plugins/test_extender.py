"""The extender plugin: a program that is asked over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.batch.cases import conf, decide, gang, node, pod, running

TIERS = (("gang", "extender"), ("predicates", "nodeorder"))
Answers = dict[str, Callable[[dict[str, Any]], Any]]


class Program:
    """Answers by path, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        program = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                program.asked.append((self.path, body))
                answer = program.answers.get(self.path.strip("/"))
                data = json.dumps(answer(body) if answer else {}).encode()
                self.send_response(200 if answer else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def conf(self, *verbs: str, actions: str = "enqueue, allocate, backfill", **more: Any) -> str:
        port = self.server.server_address[1]
        arguments = {"extender.urlPrefix": f"http://127.0.0.1:{port}/", "extender.httpTimeout": "10s"}
        arguments |= {f"extender.{verb}Verb": verb for verb in verbs}
        arguments |= {f"extender.{name}": value for name, value in more.items()}
        return conf(*TIERS, actions=actions, extender=json.dumps(arguments))


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_it_turns_nodes_down_and_scores_the_others(program: Program) -> None:
    program.answers = {
        "predicate": lambda body: {"status": "not this one"} if body["node"]["Name"] == "a" else {},
        "prioritize": lambda body: {"nodeScore": {each["Name"]: 1e6 * (each["Name"] == "c") for each in body["nodes"]}},
    }
    text = program.conf("predicate", "prioritize")
    answer = decide(text, node("a"), node("b"), node("c"), gang("g", 2))
    assert answer["bound"] == {"default/g-task-0": "c", "default/g-task-1": "c"}
    path, body = program.asked[0]
    assert path == "/predicate"
    assert body["task"]["Resreq"]["MilliCPU"] == 1000
    assert body["task"]["Pod"]["metadata"]["name"] == "g-task-0"
    assert body["node"]["Idle"]["MilliCPU"] == 4000


def test_it_has_a_say_in_jobs_queues_and_victims(program: Program) -> None:
    program.answers = {
        "jobEnqueueable": lambda body: {"status": -1 if body["job"]["Name"] == "held" else 1},
        "preemptable": lambda body: {
            "status": 1,
            "victims": [each for each in body["evictees"] if "0" in each["Name"]],
        },
    }
    text = program.conf("jobEnqueueable", "preemptable", actions="enqueue, allocate, preempt")
    few = {"minResources": {"cpu": "1"}}
    objects = [node("a", "2"), running("old", ["a", "a"]), gang("held", 1, **few), gang("new", 1, **few)]
    answer = decide(text, *objects)
    assert answer["podGroups"]["default/held"]["phase"] == "Pending"
    assert answer["podGroups"]["default/new"]["phase"] == "Inqueue"
    assert answer["evicted"] == ["default/old-task-0"]
    assert decide(program.conf("queueOverused"), node("a"), gang("g", 1))["bound"] == {}, "no answer: overused"


def test_it_is_told_what_happens(program: Program) -> None:
    verbs = ("onSessionOpen", "onSessionClose", "allocateFunc", "deallocateFunc")
    program.answers = {verb: lambda _body: {} for verb in verbs}
    decide(program.conf(*verbs), node("a", "2"), gang("fits", 1), gang("huge", 3))
    paths = [path.strip("/") for path, _ in program.asked]
    assert paths[0] == "onSessionOpen"
    assert paths[-1] == "onSessionClose"
    assert paths.count("allocateFunc") == paths.count("deallocateFunc") + 1
    assert set(program.asked[0][1]["Jobs"]) == {"default/fits", "default/huge"}
    program.answers["allocateFunc"] = lambda _body: {"errorMessage": "no"}
    assert decide(program.conf("allocateFunc"), node("a"), gang("g", 1))["bound"] == {}


@pytest.mark.parametrize("ignorable", [True, False])
def test_one_that_does_not_answer_counts_unless_that_is_to_be_ignored(program: Program, ignorable: bool) -> None:
    for verb in ("predicate", "prioritize", "jobReady", "queueOverused", "allocateFunc"):
        answer = decide(program.conf(verb, ignorable=ignorable), node("a"), node("b"), gang("g", 1))
        assert bool(answer["bound"]) == ignorable, verb
    answer = decide(program.conf("onSessionOpen", "jobReady", ignorable=ignorable), node("a"), gang("g", 1))
    assert answer["bound"], "an extender that cannot be told has no say, or is ignored"


def test_it_is_asked_about_what_it_manages(program: Program) -> None:
    program.answers = {"predicate": lambda _body: {"status": "no", "code": 3}}
    text = program.conf("predicate", managedResources=["example.com/gpu"])
    container = {
        "name": "app",
        "image": "app",
        "resources": {"requests": {"cpu": "1"}, "limits": {"example.com/gpu": 1}},
    }
    special = pod("special", "g", containers=[container])
    answer = decide(text, node("a", **{"example.com/gpu": "4"}), gang("g", 1, 0), special)
    assert answer["bound"] == {"default/g-task-0": "a"}


def test_an_address_that_is_none_is_told_of(program: Program) -> None:
    arguments = '{"extender.urlPrefix": "nowhere", "extender.predicateVerb": "p"}'
    answer = decide(conf(*TIERS, extender=arguments), node("a"), gang("g", 1))
    assert answer["bound"] == {}
