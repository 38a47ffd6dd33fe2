"""A callback for tests: the results that each host gave, waiting sweeps left out, into the file COUNT_HOST_TASKS."""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: count_host_tasks
type: aggregate
short_description: counts host-tasks
description: counts host-tasks
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "count_host_tasks"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[str]] = collections.defaultdict(list)

    def _count(self, result: Any, **_: Any) -> None:
        if not result._task.get_path().partition(":")[0].endswith(("/sweep.yml", "/wait.yml")):
            self.seen[result._host.get_name()].append(result._task.get_name())

    v2_runner_on_ok = v2_runner_on_failed = v2_runner_on_skipped = v2_runner_on_unreachable = _count

    def v2_playbook_on_stats(self, stats: Any) -> None:
        Path(os.environ["COUNT_HOST_TASKS"]).write_text(json.dumps(self.seen))
