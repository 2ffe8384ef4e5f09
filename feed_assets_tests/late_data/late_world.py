"""Late data without Spark, Dagster and bytes: the real decisions, requests and state over storage in memory.

Here: partners who send, days that run, and the clock. Not here: any expectation, and which order things happen in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Entry, Page
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.gate.decision import Case, decide
from feed_assets.dependencies.gate.inputs import input_state
from feed_assets.dependencies.gate.trigger import Trigger
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed import (
    Claim,
    Facts,
    Feed,
    RawInput,
    Staged,
    Update,
    claim,
    latest,
    publish,
    stage,
    staged_files,
)
from feed_assets.late_data import inputs_read, raw_growth
from feed_assets.late_data.late_days import LateDays
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.notices.requested_reports import record_requested
from feed_assets.sensors.raw_facts import raw_datasets, raw_name, record_raw
from feed_assets.sources.layout import RAW, LandingId, landed_path, raw_file_key
from feed_assets.sources.ledger import Landing
from feed_assets.sources.raw import read_set
from feed_assets.sources.spec import Source
from feed_assets.starts.attempts import KnownRun
from feed_assets.starts.graph import FeedNode
from feed_assets.starts.requests import Request, Requests, in_force_in
from feed_assets.state.store import Store
from feed_assets_tests.late_data.plain_process import ADS, Days, node
from feed_assets_tests.ledger import enter

GB = 10**9


class StatedSizes(MemoryBlackboard):
    """Raw files have the size that their content states, and no bytes."""

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        page = super().page(prefix, after=after, folders=folders)
        return replace(page, entries=tuple(map(self._stated, page.entries)))

    def _stated(self, entry: Entry) -> Entry:
        if not entry.key.startswith(RAW) or not entry.key.endswith(".parquet"):
            return entry
        return replace(entry, size=int(self._stored[entry.key].data.split()[0]))


class OfAds(Days):
    """One feed of days, made of all sources of ads."""

    def __init__(self, now: datetime, sources: Iterable[Source], first: date) -> None:
        super().__init__(now)
        self.days = [str(first + timedelta(days=ago)) for ago in range((now.date() - first).days)]
        of_ads = replace(node(ADS), raw_sources=frozenset(source.key for source in sources))
        self.feeds: dict[str, FeedNode] = {ADS: of_ads}


@dataclass
class Run:
    """A run of a day: what it read when it began, and its claim."""

    request: Request | None
    read: list[RawInput]
    claim: Claim

    def stage(self, now: datetime) -> Staged:
        self.claim.feed.blackboard.create(f"{self.claim.prefix}part-0", b"x")
        read = [each for each in self.read if each.files]
        return stage(self.claim, staged_files(self.claim, 1), Facts(inputs=tuple(read)), now=now)


@dataclass
class World:
    """Storage with partners' files, the sources, and the time. `alive` are the days on which a run is under way."""

    store: Store
    sources: Sequence[Source]
    now: datetime
    first: date
    board: StatedSizes = field(default_factory=StatedSizes)
    alive: dict[str, Run] = field(default_factory=dict)
    runs: dict[str, KnownRun] = field(default_factory=dict)
    """What Dagster knows, by the keys of attempts."""
    notes: list[str] = field(default_factory=list)
    gated: bool = False
    """Whether the day has a trigger, and the gate decides."""

    def __post_init__(self) -> None:
        # What a process remembers of storage in memory is of another world.
        inputs_read._READ.clear()
        inputs_read._DECIDED.clear()
        raw_growth._ANSWERS.clear()

    @property
    def feed(self) -> Feed:
        return Feed(self.board, ADS)

    @property
    def graph(self) -> OfAds:
        return OfAds(self.now, self.sources, self.first)

    # --- partners ------------------------------------------------------------------------------------------------

    def send(self, source: Source, day: str, name: str, size: int, content: str = "", hour: str = "12") -> str:
        """A file of another receiver, in place of one of the same name."""
        key = raw_file_key(source.key, day, f"{hour}/{name}.parquet")
        self.board.put(key, f"{size} {content}".encode())
        return key

    def land(self, source: Source, day: str, content: str, records: int, size: int, generation: int = 1) -> str:
        """A landed file with its entry in the ledger; a higher generation takes the place of the lower ones."""
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        landing = LandingId(digest, generation)
        key = raw_file_key(source.key, day, landed_path("12", landing, records))
        self.board.put(key, f"{size} {content} {generation}".encode())
        entry = Landing(
            source.key, "log.csv", digest * 4, digest, read=records, landed=records, filtered=0, malformed=0,
            quarantined={}, quarantine_key=None, partitions=(f"{day}/12",), days=(day,), generation=generation,
            records=(records,),
        )  # fmt: skip
        enter(self.board, entry)
        return key

    def read(self, day: str) -> list[RawInput]:
        """What lies there for a day."""
        return [read_set(self.board, source.key, date.fromisoformat(day)) for source in self.sources]

    # --- the monitor ---------------------------------------------------------------------------------------------

    def tick(self) -> tuple[list[SourceDecision], list[Request]]:
        """The decisions of a tick, and the requests that it put on record."""
        busy = {day: frozenset([ADS]) for day in self.alive}
        requests = Requests(self.store, self.board, self.graph, self.now, busy, record_requested)
        known = requests.attempts.known(lambda attempt: self.runs.get(attempt.key, KnownRun.NONE))
        requests.attempts.end_lost(known)
        requests.runless = {each.key: each for each, run in known.items() if run is KnownRun.NONE}
        late = LateDays(self.sources, {"ads": ADS}, requests, by_hour=self.gated)
        decisions = list(late.decisions())
        if self.gated:
            (raw,) = raw_datasets(self.sources, self.first)
            states = Dependencies(self.store, self.board.uri(""), {raw.dataset.name: raw})
            record_raw(states, decisions, now=self.now)
            requests.held = lambda _, day, state: self._held(states, day, state)
        late.plan(decisions)
        late.settle(decisions)
        asked = requests.put_on_record()
        self.notes = requests.decided
        return decisions, asked

    def _held(self, states: Dependencies, day: str, state: str) -> str | None:
        slot = Slot(raw_name("ads"), NO_MEMBER, Grain.DAY, day_of(date.fromisoformat(day)))
        inputs = [input_state(states, slot)]
        case = Case("ads", slot._replace(dataset=ADS), inputs, in_force_in(state), "changed", at(day, 0))
        lookback = timedelta(days=max(each.lookback_days for each in self.sources))
        verdict = decide(case, Trigger(settle=timedelta(0)), now=self.now, lookback=lookback)
        return verdict.sentence if verdict.held else None

    # --- runs ----------------------------------------------------------------------------------------------------

    def begin(self, request: Request) -> Run:
        """A run claims, and resolves what it reads."""
        day = request.need.partition
        self.runs[request.recorded[ADS].key] = KnownRun.UNFINISHED
        self.alive[day] = Run(request, self.read(day), claim(self.feed, day, now=self.now, owner="test"))
        return self.alive[day]

    def staged(self, day: str) -> Staged:
        """An update that read what lies there now."""
        return Run(None, self.read(day), claim(self.feed, day, now=self.now, owner="test")).stage(self.now)

    def process(self, day: str) -> Update:
        """The day runs, without a request."""
        return publish(self.staged(day), now=self.now)

    def in_force(self, day: str) -> str | None:
        update = latest(self.feed, day, now=self.now)
        return update.name if update else None


def source(name: str = "shop", *, threshold: str = "growth_threshold_percent: 5", lookback: int = 7) -> Source:
    """A source of ads."""
    values = {
        "name": name, "kind": "ads", "format": {"type": "csv", "columns": ["id", "time", "ad"]},
        "columns": {"impression_id": "id", "event_time": "to_timestamp(time)", "ad_id": "ad"}, "identity": ["id"],
        "lookback_days": lookback, "buffer_hours": 0,
    }  # fmt: skip
    import yaml  # noqa: PLC0415 - one line

    return Source.of(values | yaml.safe_load(threshold), KINDS)


def at(day: str, hour: int = 1) -> datetime:
    return datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)
