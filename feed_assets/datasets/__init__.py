"""Declarations of feeds as plain values, the names of days, and the slots of datasets.

Not here: an asset's metadata with its declaration (`feed_events.declarations`), storage, and facts about slots.

A `Dataset` has grains, and a `Hierarchy` of members, each with a `Calendar`. A `Slot` is a window of a dataset at a
member. An instant is an integer: seconds since 1970-01-01 00:00 UTC. A day is an integer that names a batch date: days
since 1970-01-01.
"""

from feed_assets.datasets.calendars import Calendar, DayWindow
from feed_assets.datasets.containment import (
    BaseStarts,
    ancestors,
    base_set,
    base_starts,
    member_children,
    member_parent,
    time_children,
    time_parents,
)
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.days import ONE_DAY, days_between, is_day, midnight
from feed_assets.datasets.declaration import FeedDeclaration, Figures, Place
from feed_assets.datasets.errors import (
    CalendarError,
    DatasetError,
    GrainError,
    MappingError,
    MemberError,
    SlotError,
)
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.input_mappings import (
    last_slots,
    same_slot,
    shifted_slot,
    slots_containing,
    slots_within,
)
from feed_assets.datasets.instants import date_of, day_of, instant_of, moment_of
from feed_assets.datasets.member_changes import MemberChange, check_change, member_changes
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.ranges import slots_between, slots_on
from feed_assets.datasets.slots import Slot, parse_slot

__all__ = [
    "ONE_DAY",
    "BaseStarts",
    "Calendar",
    "CalendarError",
    "Dataset",
    "DatasetError",
    "DayWindow",
    "FeedDeclaration",
    "Figures",
    "Grain",
    "GrainError",
    "Hierarchy",
    "MappingError",
    "Member",
    "MemberChange",
    "MemberError",
    "Place",
    "Slot",
    "SlotError",
    "ancestors",
    "base_set",
    "base_starts",
    "check_change",
    "date_of",
    "day_of",
    "days_between",
    "instant_of",
    "is_day",
    "last_slots",
    "member_changes",
    "member_children",
    "member_parent",
    "midnight",
    "moment_of",
    "parse_slot",
    "same_slot",
    "shifted_slot",
    "slots_between",
    "slots_containing",
    "slots_on",
    "slots_within",
    "time_children",
    "time_parents",
]
