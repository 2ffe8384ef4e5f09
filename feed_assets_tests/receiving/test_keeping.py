"""The keeper: in which order, and how often, it gives segments to the lander, which is replaced. Time is its own."""

from __future__ import annotations

import threading
from collections import deque
from itertools import pairwise
from types import SimpleNamespace

import pytest

from feed_assets.receiving import keeping
from feed_assets.receiving.committing import Sealed
from feed_assets.receiving.keeping import AGAIN_AFTER, MOST_AGAIN_AFTER, Keeper
from feed_assets.receiving.landing_segments import Outcome
from feed_assets_tests.waiting import HANGS

TRIES = 8


class Lander:
    """Stands for the lander's process and its connection. Each segment fails whose name has `bad`.

    It is `done` when a segment has landed, or when one was tried `TRIES` times.
    """

    def __init__(self, step):
        self.now, self.step = 0.0, step
        self.tried, self.done, self.outcomes = {}, threading.Event(), deque()

    def monotonic(self):
        self.now += self.step
        return self.now

    def time(self):
        return self.now

    def Pipe(self):  # noqa: N802 - as multiprocessing names it
        return self, SimpleNamespace(close=lambda: None)

    def Process(self, **_):  # noqa: N802 - as above
        return SimpleNamespace(start=lambda: None, is_alive=lambda: True, kill=lambda: None, join=lambda: None)

    def send(self, segment):
        self.tried.setdefault(segment, []).append(self.now)
        fails = "bad" in segment
        self.outcomes.append(Outcome(segment, problems=("ads/gone: is no source any more",) if fails else ()))
        if not fails or len(self.tried[segment]) == TRIES:
            self.done.set()

    def poll(self):
        return bool(self.outcomes)

    def recv(self):
        return self.outcomes.popleft()


@pytest.fixture
def keep(monkeypatch, store):
    """Keep these segments until the lander is done. Each look at the time lets `step` seconds go by."""

    def run(*segments, step):
        lander = Lander(step)
        monkeypatch.setattr(keeping, "time", lander)
        monkeypatch.setattr(keeping, "LOOK_EVERY", 0.0)
        keeper = Keeper(SimpleNamespace(remove=lambda _: None), store, dict, processes=lander)
        for each in segments:
            keeper.add(Sealed(each, {}))
        keeper.start()
        try:
            assert lander.done.wait(HANGS)
        finally:
            keeper.stop()
        return lander.tried

    return run


def test_segments_that_cannot_land_keep_no_new_segment_back_however_many_they_are(keep):
    tried = keep(*(f"bad-{number}" for number in range(100)), "good", step=MOST_AGAIN_AFTER)

    assert "good" in tried


def test_a_segment_that_fails_again_and_again_is_tried_ever_more_rarely_up_to_a_bound(keep):
    times = keep("bad", step=1.0)["bad"][:TRIES]

    pauses = [later - time for time, later in pairwise(times)]
    wanted = [min(AGAIN_AFTER * 2**number, MOST_AGAIN_AFTER) for number in range(TRIES - 1)]
    assert [pause - pause % 10 for pause in pauses] == wanted


ADS, CLICKS = "ads/shop", "clicks/shop"


@pytest.mark.parametrize(
    ("outcomes", "stuck"),
    [
        ([Outcome("1", problems=("no file is taken",), stuck=(ADS,))], [ADS]),
        ([Outcome("1", problems=("ads fail",), failed=(ADS,))], []),
        ([Outcome("1", problems=("ads fail",), failed=(ADS,), done=(CLICKS,))], [ADS]),
        ([Outcome("1", problems=("ads fail",), failed=(ADS,)), Outcome("2", done=(CLICKS,))], [ADS]),
        ([Outcome("2", done=(CLICKS,)), Outcome("1", problems=("ads fail",), failed=(ADS,))], []),
        ([Outcome("1", problems=("ads fail",), failed=(ADS,)), Outcome("2", done=(ADS,))], []),
        ([Outcome("1", problems=("ads fail", "clicks fail"), failed=(ADS, CLICKS))], []),
        ([Outcome("1", problems=("ads fail", "no file is taken"), failed=(ADS,), stuck=(CLICKS,))], []),
        ([Outcome("1", problems=("the journal cannot be read",), done=(CLICKS,))], []),
    ],
)
def test_a_problem_is_that_of_a_source_if_it_says_so_or_if_others_have_landed_since(
    monkeypatch, store, outcomes, stuck
):
    lander = Lander(step=1.0)
    monkeypatch.setattr(keeping, "time", lander)
    keeper = Keeper(SimpleNamespace(remove=lambda _: None), store, dict)
    for name in ("1", "2"):
        keeper.add(Sealed(name, {}))
    keeper._take_new()
    for each in outcomes:
        keeper._take(each)
    keeper._tell()

    assert list(keeper.backlog.stuck) == stuck
    assert keeper.backlog.general is not bool(stuck)
    assert keeper.backlog.moving == ("2" if stuck else "1")
