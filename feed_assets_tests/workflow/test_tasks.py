"""What a client's task may be: names, payload, files and sizes; each refusal names the limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.workflow.calls import Refused
from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import NewTask, PayloadError, encoded_payload, fault_of
from feed_assets_tests.workflow.machines import Master, new


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": ""}, "the type is missing"),
        ({"kind": "no/type"}, "type 'no/type'"),
        ({"group": "../x"}, "group '../x'"),
        ({"group": ".."}, "group '..'"),
        ({"group": "a b"}, "group 'a b'"),
        ({"group": "x" * 201}, "200"),
        ({"group": "all"}, "the group all belongs to the workflow itself"),
        ({"group": "control"}, "belongs to the workflow itself"),
        ({"group": "configuration"}, "belongs to the workflow itself"),
        ({"key": "a\nb"}, "key 'a\\nb'"),
        ({"key": "k" * 201}, "at most 200"),
        ({"key": "\ud800"}, "printable"),
        ({"bundle": ("", 2)}, "the bundle has no name"),
        ({"bundle": ("b\x00", 2)}, "bundle 'b\\x00'"),
        ({"bundle": ("b", 0)}, "the size of the bundle is 0: it is 1 to 1,000"),
        ({"bundle": ("b", 1001)}, "it is 1 to 1,000"),
        ({"bundle": ("b", 2), "key": "k"}, "a task with a key is in no bundle"),
        ({"files": ("a",), "key": "k"}, "a task with a key has no files"),
        ({"priority": 10}, "priority 10: it is 0 to 9"),
        ({"priority": -1}, "it is 0 to 9"),
        ({"delay": -0.1}, "delay -0.1: it is 0 to 600 seconds"),
        ({"delay": 601.0}, "it is 0 to 600 seconds"),
        ({"delay": float("nan")}, "delay nan"),
    ],
)
def test_a_task_that_cannot_be_is_refused_with_the_reason(fields: dict[str, Any], words: str) -> None:
    task = new(**{"kind": "split", **fields})
    fault = fault_of(task, b"null")
    assert fault is not None
    assert fault.code == "Invalid"
    assert words in fault.message


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../b", "a//b", "a/./b", "", "/", "a\\b", "a\x00", "a\n", "\ud800", "x" * 1025]
)
def test_a_file_is_a_safe_key_below_the_base_w9(name: str) -> None:
    fault = fault_of(new(files=("scratch/split/1-0-ab/part-0", name)), b"null")
    assert fault is not None
    assert "files: " in fault.message


def test_a_file_may_be_a_folder_and_have_any_letters() -> None:
    assert fault_of(new(files=("scratch/split/1-0-ab/", "día/数据.csv")), b"null") is None


def test_too_much_payload_and_too_many_files_are_refused_with_the_limit_w3() -> None:
    master = Master()
    master.person.insert(new(payload="x" * 4094))
    for task, words in (
        (new(payload="x" * 4095), "Task 1 of 1: the payload has 4,097 bytes, at most 4,096: use files."),
        (new(files=("a" * 1000,) * 66), "have 66,004 bytes, at most 65,536: name a folder."),
    ):
        with pytest.raises(Refused) as error:
            master.person.insert(task)
        assert error.value.code == "TooLarge"
        assert words in str(error.value)


@pytest.mark.parametrize("payload", [float("nan"), {"a": [1, float("inf")]}, "\ud800", object(), {1: 2, "1": 3}])
def test_a_payload_that_is_no_json_is_refused_not_changed(payload: Any) -> None:
    with pytest.raises(PayloadError, match="the payload is no JSON"):
        encoded_payload(payload)


def test_a_payload_nested_beyond_measure_is_refused() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(PayloadError):
        encoded_payload(nested)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(json, st.text(), st.text(max_size=20), st.lists(st.text(), max_size=2))
def test_any_task_is_refused_or_survives_a_failover(payload: Any, key: str, group: str, files: list[str]) -> None:
    master = Master()
    try:
        (unit,) = master.person.insert(NewTask("split", payload, group, key, files=tuple(files)))
    except Refused as error:
        assert error.code in {"Invalid", "TooLarge"}  # noqa: PT017 - it may be refused or not
        return
    task = master.state.version_of(unit)
    assert State.load(master.state.dump()).version_of(unit) == task
    master.fail_over(replay=True)
    assert master.state.version_of(unit) == task


@given(json)
def test_equal_payloads_are_equal_bytes(payload: Any) -> None:
    turned = dict(reversed(payload.items())) if isinstance(payload, dict) else payload
    assert encoded_payload(turned) == encoded_payload(payload)
