"""Faults: which requests and records go wrong, and how.

Here: the rules, and the choice by seed or by an exact plan. Not here: what the server does then (see `server`).

| Fault | What happens |
|---|---|
| `cut_before` | the connection is cut; nothing was done |
| `cut_after` | the request is done, then the connection is cut without an answer |
| `cut_within` | the request is done, half of the answer is sent, then the connection is cut |
| `error_before` | an answer with `error` and `status`; nothing was done |
| `error_after` | the request is done, the answer is `error` and `status` |
| `delay_before` | the request waits for `seconds` before anything is done |
| `delay_after` | the answer waits for `seconds` |
| `record_error_before` | records of PutRecords get `error`, and are not stored |
| `record_error_after` | records of PutRecords are stored, and get `error` |

Requests are counted from 0 for each rule, among its `operations`, since the rules were set. Of the rules that cut or
answer, the first that hits counts; delays add up. The same seed, rules and sequence of requests give the same faults.
"""

from __future__ import annotations

import random
from typing import Final, Literal

import msgspec

BEFORE: Final = frozenset({"cut_before", "error_before"})
AFTER: Final = frozenset({"cut_after", "cut_within", "error_after"})

Fault = Literal[
    "cut_before",
    "cut_after",
    "cut_within",
    "error_before",
    "error_after",
    "delay_before",
    "delay_after",
    "record_error_before",
    "record_error_after",
]

MESSAGES: Final = {
    "InternalFailure": "Internal Service Failure",
    "ServiceUnavailable": "The request has failed due to a temporary failure of the server.",
    "ProvisionedThroughputExceededException": "Rate exceeded for the stream.",
    "AccessDeniedException": "User is not authorized to perform this operation on the resource.",
    "ExpiredTokenException": "The security token included in the request is expired",
    "UnrecognizedClientException": "The security token included in the request is invalid.",
    "KMSDisabledException": "The KMS key of the stream is disabled.",
}
"""The messages of injected errors."""


class Rule(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One fault, and what it hits: of the requests that fit, a share of `rate`, chosen by the seed."""

    fault: Fault
    rate: float = 1.0
    """The share of the requests; for `record_error_*` that of the records."""
    requests: list[int] | None = None
    """The numbers of the requests, if not all."""
    records: list[int] | None = None
    """For `record_error_*`: the positions in a request, if not all."""
    keys: list[str] | None = None
    """For `record_error_*`: the partition keys, if not all."""
    operations: list[str] = msgspec.field(default_factory=lambda: ["PutRecords", "PutRecord"])
    """The API's names; empty for all."""
    begins: float = 0.0
    """Seconds after the rules were set."""
    ends: float = float("inf")
    times: int | None = None
    """How many requests, or records, it may hit at most."""
    error: str = "InternalFailure"
    status: int = 500
    seconds: float = 0.0
    """The length of a delay."""


class Decision(msgspec.Struct):
    """What goes wrong with one request."""

    rule: Rule | None = None
    """The rule that cuts the connection, or gives the answer."""
    delay_before: float = 0.0
    delay_after: float = 0.0
    records: list[Live] = []


class Live:
    """A rule in use: how often it was asked, and has hit."""

    def __init__(self, rule: Rule, seed: str) -> None:
        self.rule = rule
        self.asked = 0
        self.hits = 0
        self._random = random.Random(seed)

    def fits(self, operation: str, seconds: float) -> bool:
        """Whether the rule is for this request, which thereby gets its number."""
        rule = self.rule
        if rule.operations and operation not in rule.operations:
            return False
        number = self.asked
        self.asked += 1
        if rule.requests is not None and number not in rule.requests:
            return False
        return rule.begins <= seconds < rule.ends and not self._exhausted()

    def strikes(self) -> bool:
        """Whether the seed's next number hits; counts it."""
        if self._exhausted() or (self.rule.rate < 1 and self._random.random() >= self.rule.rate):
            return False
        self.hits += 1
        return True

    def hits_record(self, position: int, key: str) -> bool:
        """Whether this record fails; counts it."""
        rule = self.rule
        if rule.records is not None and position not in rule.records:
            return False
        return (rule.keys is None or key in rule.keys) and self.strikes()

    def _exhausted(self) -> bool:
        return self.rule.times is not None and self.hits >= self.rule.times


class Faults:
    """The rules in use."""

    def __init__(self) -> None:
        self.rules: list[Live] = []
        self._since = 0.0

    def set(self, rules: list[Rule], seed: int, now: float) -> None:
        """Replace all rules; `now` is in seconds."""
        self.rules = [Live(rule, f"{seed} {number}") for number, rule in enumerate(rules)]
        self._since = now

    def decide(self, operation: str, now: float) -> Decision | None:
        """What happens to the next request; None if all is well."""
        if not self.rules:
            return None
        decision = Decision(records=[])
        for live in self.rules:
            if not live.fits(operation, now - self._since):
                continue
            fault = live.rule.fault
            if fault.startswith("record_error"):
                decision.records.append(live)
            elif fault.startswith("delay"):
                if live.strikes():
                    if fault == "delay_before":
                        decision.delay_before += live.rule.seconds
                    else:
                        decision.delay_after += live.rule.seconds
            elif decision.rule is None and live.strikes():
                decision.rule = live.rule
        return decision
