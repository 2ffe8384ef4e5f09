"""What a request to the API says: its parameters, each documented, and refusals of what makes no sense.

Here: parameters of the query, and which error has which status. Not here: answering (`http`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from feed_assets.blackboard.port import BlackboardError
from feed_assets.datasets.days import is_day
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import DependencyError, EventsGoneError, UnknownDatasetError, UnknownFlowError
from feed_assets.dependencies.http.answers import Gone
from feed_assets.dependencies.quality.marks import QualityError
from feed_assets.dependencies.rules import Declared
from feed_assets.file_feed.wording import sentence
from feed_assets.serving.answers import Problem, json_answer, retry_later, saying_bugs
from feed_assets.serving.documents import TOKEN_PARAMETER, Endpoint, Says
from feed_assets.state.address import StoreError

MOST_SECONDS: Final = 60
"""How long a request may wait for events."""
MOST_EVENTS: Final = 1000
_LONGEST: Final = 1000
"""The most characters of a parameter."""
_NEWEST: Final = 2**62

_TEXT: Final = {"type": "string"}
_DESCRIBED: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "dataset": (_TEXT, "the name of a dataset: `clean-ads/v1.0`, `raw/ads`"),
    "member": (_TEXT, "the path of a member, or the beginning of paths; `-` for all together"),
    "grain": (_TEXT, "`5min`, `10min`, `hour`, `day`, `week`, `month`, `quarter` or `-`"),
    "start": (_TEXT, "where the slot starts: `2026-11-27T15:55Z`, `2026-11-27`, `2026-W48`, `2026-11` or `-`"),
    "from": ({**_TEXT, "format": "date"}, "the first batch date"),
    "to": ({**_TEXT, "format": "date"}, "the last batch date; by default the first"),
    "flow": (_TEXT, "an asset with a trigger, or the location of its feed"),
    "partition": (_TEXT, "the partition as Dagster names it"),
    "removed": ({"type": "boolean"}, "whether to list removed marks, too: `true` or `false`"),
    "after": ({"type": "integer"}, "the number after which the events begin; without it, no event, but where to begin"),
    "limit": ({"type": "integer", "maximum": MOST_EVENTS}, "the most events of the answer"),
    "wait": ({"type": "number", "maximum": MOST_SECONDS}, "the seconds in which the answer waits for an event"),
}
REFUSALS: Final = {
    400: Says("A parameter, or the body, makes no sense; nothing was changed", Problem),
    401: Says("No valid token", Problem),
    403: Says("The token does not do this; or, without tokens, the request is not of this machine", Problem),
    404: Says("There is no such dataset or flow", Problem),
    503: Says("The state database, or the storage, does not answer; send it again", Problem),
}
GONE: Final = {410: Says("The events after this number are deleted; go on after `next`.", Gone)}


class Parameter(NamedTuple):
    """A parameter of the query."""

    name: str
    required: bool = False


def described(parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
    """The parameters as the API's document has them."""
    found = []
    for each in parameters:
        schema, meaning = _DESCRIBED[each.name]
        more = {"required": True} if each.required else {}
        found.append({"name": each.name, "in": "query", **more, "schema": dict(schema), "description": meaning})
    return [*found, TOKEN_PARAMETER]


class Query:
    """The parameters of a request. Raises HTTPException, 400, for what is not among `parameters`."""

    def __init__(self, request: Request, parameters: Sequence[Parameter]) -> None:
        names = {each.name for each in parameters}
        self._given: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in names:
                there = f"there are {', '.join(sorted(names))}" if names else "there are none"
                raise _refused(f"There is no parameter {name[:_LONGEST]!r} here; {there}.")
            if name in self._given:
                raise _refused(f"The parameter {name} is given twice; give it once.")
            if len(value) > _LONGEST or not value.isprintable():
                raise _refused(f"The value of {name} is too long, or has characters that cannot be printed.")
            self._given[name] = value
        for each in parameters:
            if each.required and each.name not in self._given:
                raise _refused(f"The parameter {each.name} is missing: give {_DESCRIBED[each.name][1]}.")

    def text(self, name: str) -> str:
        """A required parameter."""
        return self._given[name]

    def optional(self, name: str) -> str | None:
        """A parameter; None if it is not given."""
        return self._given.get(name)

    def grain(self) -> Grain | None:
        """The parameter `grain`. Raises GrainError."""
        found = self.optional("grain")
        return None if found is None else Grain.named(found)

    def number(self, name: str) -> int | None:
        """A number of 0 or more; None if it is not given."""
        found = self.optional(name)
        if found is None:
            return None
        if not (found.isascii() and found.isdigit() and (number := int(found)) <= _NEWEST):
            raise _refused(f"{name} is {found!r}: give a number of 0 or more.")
        return number

    def seconds(self, name: str) -> float:
        """A number of seconds, at most MOST_SECONDS; 0 if it is not given."""
        text = self.optional(name) or "0"
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not 0 <= found <= MOST_SECONDS:
            raise _refused(f"{name} is {text!r}: give seconds from 0 to {MOST_SECONDS}.")
        return found

    def flag(self, name: str) -> bool:
        """Whether a parameter is `true`."""
        found = self.optional(name) or "false"
        if found not in {"true", "false"}:
            raise _refused(f"{name} is {found!r}: give true or false.")
        return found == "true"

    def days(self) -> tuple[int, int]:
        """The parameters `from` and `to`, in days since 1970-01-01. Raises CalendarError."""
        first = self.text("from")
        dates = (first, self.optional("to") or first)
        for name, text in zip(("from", "to"), dates, strict=True):
            if not is_day(text):
                raise _refused(f"{name} is {text!r}: give a date such as 2026-11-27.")
        begin, end = (day_of(date.fromisoformat(each)) for each in dates)
        if end < begin:
            raise _refused(f"to is {dates[1]}, before from, {dates[0]}: exchange them.")
        return begin, end

    def slot(self, declared: Declared) -> Slot:
        """The slot of the parameters `member`, `grain` and `start`. Raises DatasetError."""
        return declared.dataset.slot(self.text("start"), self.optional("member") or NO_MEMBER, self.grain())


def refusing(endpoint: Endpoint) -> Endpoint:
    """Answer what the endpoint raises with the status that it has for a client."""

    @functools.wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except EventsGoneError as error:
            return json_answer(410, Gone(str(error), error.newest))
        except (UnknownDatasetError, UnknownFlowError) as error:
            raise HTTPException(404, str(error)) from None
        except (DatasetError, DependencyError, QualityError) as error:
            raise _refused(str(error)) from None
        except (StoreError, BlackboardError) as error:
            raise retry_later(503, str(error), 5) from None

    return saying_bugs(answered)


def _refused(message: str) -> HTTPException:
    return HTTPException(400, sentence(message))
