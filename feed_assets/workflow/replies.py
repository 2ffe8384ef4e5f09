"""What a client gets: the answer to its call, with the tasks and configurations that the answer names.

Here: the view of a state that a reply has. Not here: the answer itself (`machine`).
"""

from __future__ import annotations

import msgspec

from feed_assets.workflow.calls import Answer, AnyCall, Lease, Reply, TaskView
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.tasks import Task


def reply_to(call: AnyCall, answer: Answer, machine: Machine) -> Reply:
    """The reply with this answer; a lease has its tasks, those that are still there, and all have configurations."""
    state = machine.state
    tasks = [each for task_id in answer.ids if (each := state.tasks.get(task_id)) is not None]
    configurations = [state.configurations.get(each) for each in sorted({each.type for each in tasks})]
    return Reply(
        machine.token,
        machine.epoch,
        state.position,
        answer,
        tuple(view(each) for each in tasks) if isinstance(call, Lease) else (),
        tuple(view(each) for each in configurations if each is not None),
    )


def view(task: Task) -> TaskView:
    """A task, as clients see it."""
    return TaskView(
        task.id, task.unit, task.origin, task.group, task.type, msgspec.Raw(task.payload), task.status, task.since,
        task.key, task.bundle.name if task.bundle else "", task.bundle.size if task.bundle else 0, task.files,
        task.priority, task.delay, task.attempt, task.holder, task.seconds, task.progress, task.checkpoint, task.empty,
        task.reasons,
    )  # fmt: skip
