"""What may change in the schema of a feed version, and what needs a new one."""

from __future__ import annotations

import pytest

from feed_assets.file_feed import Column, SchemaChangeError, check_contract

BEFORE = (Column("ad_id", "bigint", nullable=False), Column("page", "string"))


def changed(*columns: Column) -> str:
    with pytest.raises(SchemaChangeError) as caught:
        check_contract(BEFORE, columns, feed="clean-ads/v1.0")
    return str(caught.value)


def test_the_same_schema_is_held() -> None:
    check_contract(BEFORE, BEFORE, feed="clean-ads/v1.0")


def test_a_column_that_may_be_null_can_be_added() -> None:
    check_contract(BEFORE, (*BEFORE, Column("country", "string")), feed="clean-ads/v1.0")


def test_a_description_is_no_part_of_the_contract() -> None:
    check_contract(BEFORE, (BEFORE[0], Column("page", "string", description="where")), feed="clean-ads/v1.0")


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ((BEFORE[0],), ["page", "string", "gone"]),
        ((BEFORE[0], Column("page", "bigint")), ["page", "string", "bigint"]),
        ((Column("ad_id", "bigint"), BEFORE[1]), ["ad_id", "never NULL"]),
        ((*BEFORE, Column("country", "string", nullable=False)), ["country", "never NULL"]),
    ],
)
def test_any_other_change_is_refused_with_the_column_and_the_way_out(
    columns: tuple[Column, ...], names: list[str]
) -> None:
    message = changed(*columns)
    assert message.startswith("clean-ads/v1.0: ")
    assert "new version" in message
    assert all(name in message for name in names)


def test_all_faults_are_told_at_once() -> None:
    message = changed(Column("ad_id", "string", nullable=False))
    assert "ad_id" in message
    assert "page" in message
