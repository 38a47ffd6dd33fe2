"""What ansible-playbook prints: its default output, without lines for includes and for tasks that went well."""

from __future__ import annotations

DOCUMENTATION = """
name: gpuburn_output
type: stdout
short_description: The default output, quiet where all is well
description:
  - One line per task, results only of what changed nothing good, no lines for includes.
  - How every host stands is printed by the callback gpuburn.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in ansible.cfg
"""

from typing import Any  # noqa: E402

from ansible.plugins.callback.default import CallbackModule as Default  # noqa: E402

# Tasks whose failure is a sentence for a person; the one that only repeats an unreachable host is not printed again.
OURS = ("Stop", "Say", "Refuse")
AGAIN = "Stop a host that cannot be reached"


class CallbackModule(Default):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpuburn_output"

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """One line; what follows from it is said where it matters."""
        said = " ".join(str(result._result.get("msg", "no answer")).split()).removeprefix("Task failed: ")
        self._display.display(f"unreachable: {result._host.get_name()}: {said}", color="bright red", stderr=False)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A sentence of our own stands alone; any other failure is shown as Ansible shows it."""
        task = str(result._task.get_name()).rpartition(" : ")[2]
        if not task.startswith(OURS):
            super().v2_runner_on_failed(result, ignore_errors)
        elif task != AGAIN:
            for line in str(result._result.get("msg", "")).splitlines():
                self._display.display(f"stopped: {result._host.get_name()}: {line}", color="red")

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """An include is how a play is written, not something that happened."""

    def v2_runner_on_ok(self, result: Any) -> None:
        """What went well is not printed; the callback gpuburn says what a person wants to know of it."""
