"""The errors of declarations and slots. Each message says what is wrong, where, and what to do."""

from feed_assets.errors import BAD_ARGUMENT, FeedAssetsError


class DatasetError(FeedAssetsError, ValueError):
    """A dataset, or a slot of a dataset, is not as it must be."""


class CalendarError(DatasetError):
    """A zone does not exist, stored windows contradict each other, or a time is outside the years 1970 to 2099."""


class GrainError(DatasetError):
    """A grain does not exist, or it does not divide the days of a calendar or the other grains of a dataset."""

    exit_code = BAD_ARGUMENT


class MemberError(DatasetError):
    """A member does not exist, has an unsafe name, or its change would alter past dates."""

    exit_code = BAD_ARGUMENT


class SlotError(DatasetError):
    """A slot does not exist: it is not on its grain, its date is skipped, or no member is valid on its date."""

    exit_code = BAD_ARGUMENT


class MappingError(DatasetError):
    """An input mapping has no meaning for this slot and this input."""
