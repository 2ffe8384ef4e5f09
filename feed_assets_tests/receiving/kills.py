"""Kills a receiver under load again and again, and judges what was acknowledged against what has landed.

`python -m feed_assets_tests.receiving.kills --kills 2000 [--mistake NAME]` runs for longer. After half of the kills the
disk loses what nobody waited for, as in a power cut. Sometimes only the lander is killed.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import click
import psutil

from feed_assets.receiving.limits import Limits
from feed_assets.sources.layout import sent_key
from feed_assets.sources.ledger import current_landings
from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.receiving.light import DURABLE, MISTAKES, Light, running_light
from feed_assets_tests.receiving.serving import SOURCE, Server

CLIENTS = 3
LONGEST = 0.12
"""Seconds of load before a kill, at most."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request with events of its own: ids that no other request has. The last is bad if `bad`."""

    ids: tuple[str, ...]
    key: str = ""
    bad: bool = False

    @property
    def body(self) -> bytes:
        times = ["2019-11-24 12:00:00"] * len(self.ids)
        if self.bad:
            times[-1] = ""
        rows = zip(self.ids, times, strict=True)
        return b"".join(json.dumps({"id": name, "time": time}).encode() + b"\n" for name, time in rows)


@dataclass(slots=True)
class History:
    """What clients know: requests that were acknowledged, those without an answer, and answers that differ."""

    acknowledged: list[Request] = field(default_factory=list)
    unanswered: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kills: int = 0


def attack(light: Light, kills: int, seed: int = 0) -> History:
    """Start the receiver, load it and kill it, so often; then let everything land."""
    history, chance = History(), random.Random(seed)
    for _ in range(kills):
        with running_light(light) as server:
            _load(server, history, chance, until=time.monotonic() + chance.uniform(0.01, LONGEST), kill=True)
            history.kills += 1
        _cut_power(light.base / "journal", chance)
    with running_light(light) as server:
        _load(server, history, chance, until=time.monotonic(), kill=False)
        server.wait("/ready", '"backlog_segments": 0')
        os.kill(server.process.pid, signal.SIGTERM)
        server.process.join(30)
    with running_light(light) as server:
        server.wait("/ready", '"backlog_segments": 0')
        time.sleep(0.2)
        server.wait("/ready", '"backlog_segments": 0')
    return history


def judge(light: Light, history: History) -> list[str]:
    """The broken promises: events that were lost, landed twice, or were never sent."""
    landed: Counter[str] = Counter()
    for landing in current_landings(light.board, SOURCE):
        for line in light.board.read(sent_key(SOURCE, landing.digest)).data.splitlines():
            record = json.loads(line)
            landed[(json.loads(record[1]) if isinstance(record, list) else record)["id"]] += 1
    acknowledged = {name for request in history.acknowledged for name in request.ids}
    sent = acknowledged | {name for request in history.unanswered for name in request.ids}
    return [
        *history.problems,
        *(f"{name} was acknowledged, and is lost" for name in sorted(acknowledged - landed.keys())),
        *(f"{name} landed {count} times" for name, count in sorted(landed.items()) if count > 1),
        *(f"{name} landed, and nobody sent it" for name in sorted(landed.keys() - sent)),
    ]


def _load(server: Server, history: History, chance: random.Random, *, until: float, kill: bool) -> None:
    """Send what got no answer again where that is harmless, and then new requests, until the server is killed."""
    again = [request for request in history.unanswered if request.key]
    history.unanswered = [request for request in history.unanswered if not request.key]
    lock = threading.Lock()

    def send(seed: int) -> None:
        chance = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        while True:
            with lock:
                repeated = again.pop() if again else None
            if repeated is None and time.monotonic() >= until:
                return
            request = repeated or _request(chance)
            _settle(connection, request, history, lock, chance)
            if not _alive(server):
                return

    clients = [threading.Thread(target=send, args=(chance.random(),)) for _ in range(CLIENTS)]
    for each in clients:
        each.start()
    if kill:
        if chance.random() < 0.2:  # the lander alone
            time.sleep(max(0.0, (until - time.monotonic()) / 2))
            with suppress(psutil.Error):
                for child in psutil.Process(server.process.pid).children():
                    child.kill()
        time.sleep(max(0.0, until - time.monotonic()))
        server.process.kill()
    for each in clients:
        each.join()
    history.unanswered += again


def _request(chance: random.Random) -> Request:
    ids = tuple(uuid4().hex for _ in range(chance.randint(1, 5)))
    return Request(ids, uuid4().hex if chance.random() < 0.7 else "", chance.random() < 0.2)


def _settle(
    connection: http.client.HTTPConnection,
    request: Request,
    history: History,
    lock: threading.Lock,
    chance: random.Random,
) -> None:
    headers = {"Content-Type": "application/x-ndjson"} | ({"Idempotency-Key": request.key} if request.key else {})
    answers = []
    try:
        for _ in range(2 if request.key and chance.random() < 0.1 else 1):
            connection.request("POST", "/v1/events/shop_ads", request.body, headers)
            answer = connection.getresponse()
            answers.append((answer.status, json.loads(answer.read())))
    except (OSError, http.client.HTTPException, json.JSONDecodeError):
        connection.close()
    with lock:
        if not answers:
            history.unanswered.append(request)
            return
        history.acknowledged.append(request)
        counts = (202, len(request.ids) - request.bad, int(request.bad))
        if any((status, body.get("accepted"), body.get("rejected")) != counts for status, body in answers):
            history.problems.append(f"{request} was answered {answers}")
        if len({body["request_id"] for _, body in answers}) > 1:
            history.problems.append(f"{request} was answered in two ways: {answers}")


def _alive(server: Server) -> bool:
    return server.process.exitcode is None and psutil.pid_exists(server.process.pid)


def _cut_power(journal: Path, chance: random.Random) -> None:
    """Half of the time, lose what nobody waited for, all of it or a part."""
    if chance.random() < 0.5:
        return
    for segment in journal.glob("*.segment"):
        noted = Path(f"{segment}{DURABLE}")
        durable = int((noted.read_text(encoding="utf-8") if noted.exists() else "") or 0)
        if (size := segment.stat().st_size) > durable:
            os.truncate(segment, chance.choice((durable, chance.randint(durable, size))))


@click.command()
@click.option("--kills", default=2000, show_default=True)
@click.option("--mistake", default="", type=click.Choice(list(MISTAKES)))
@click.option("--journal", default="disk", type=click.Choice(["disk", "blackboard"]))
@click.option("--seed", default=0, show_default=True)
def main(kills: int, mistake: str, journal: str, seed: int) -> None:
    """Kill a receiver so often; exit with 1 if a promise was broken."""
    with folder_in_memory() as folder:
        light = replace(LIGHT, base=folder / "base", mistake=mistake, journal=journal)
        started = time.monotonic()
        history = attack(light, kills, seed)
        problems = judge(light, history)
        events = sum(len(request.ids) for request in history.acknowledged)
        click.echo(f"{history.kills} kills in {time.monotonic() - started:.0f} s, {events:,} events acknowledged")
        for problem in problems[:20]:
            click.echo(problem)
        sys.exit(bool(problems))


LIGHT = Light(Path(), Limits(roll_seconds=0.03))

if __name__ == "__main__":
    main()
