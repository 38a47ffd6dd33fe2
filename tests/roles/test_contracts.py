"""Every role has one shape, and its interface is what it says: rules that ansible-lint does not know."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
TASK_FILES = sorted([*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "roles").glob("*/handlers/*.yml"),
                     *(ROOT / "playbooks").glob("*.yml")])  # fmt: skip
FORBIDDEN = ("ignore_errors", "host_key_checking: false", "| safe", "|safe", "StrictHostKeyChecking=no")
each_role = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
each_file = pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(ROOT)))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def tasks(document: Any) -> list[dict[str, Any]]:
    """Every task of a file, also those in blocks and plays."""
    found: list[dict[str, Any]] = []
    for one in document or []:
        found.append(one)
        for part in ("tasks", "block", "rescue", "always", "handlers", "pre_tasks", "post_tasks"):
            found += tasks(one.get(part))
    return found


@each_role
def test_a_role_has_defaults_specs_meta_and_a_readme(role):
    for name in ("defaults/main.yml", "meta/argument_specs.yml", "meta/main.yml", "tasks/main.yml", "README.md"):
        assert (role / name).exists(), name


@each_role
def test_defaults_and_specs_name_the_same_variables_with_the_same_values(role):
    defaults = load(role / "defaults" / "main.yml") or {}
    for name, entry in load(role / "meta" / "argument_specs.yml")["argument_specs"].items():
        options = entry["options"]
        assert options.keys() == defaults.keys(), name
        assert {key: one["default"] for key, one in options.items()} == defaults, name
        assert all(one["description"] and one["type"] for one in options.values())


@each_role
def test_the_readme_names_every_entry_point(role):
    """Variables are checked once, where a role begins: its other entry points have no spec of their own."""
    assert list(load(role / "meta" / "argument_specs.yml")["argument_specs"]) == ["main"]
    plays = "\n".join(path.read_text() for path in (ROOT / "playbooks").glob("*.yml"))
    used = re.findall(rf"name: {role.name}\n\s+tasks_from: (\w+)\.yml", plays)
    assert all(f"`{name}`" in (role / "README.md").read_text() for name in used)


@each_role
def test_a_roles_variables_begin_with_its_name(role):
    for file, prefix in (("defaults", f"{role.name}_"), ("vars", f"__{role.name}_")):
        for name in load(role / file / "main.yml") or {}:
            assert name.startswith(prefix), name


@each_role
def test_every_default_has_a_comment(role):
    lines = (role / "defaults" / "main.yml").read_text().splitlines()
    for before, line in itertools.pairwise(lines):
        assert not re.match(r"\w+:", line) or before.startswith("#"), line


@each_role
def test_the_readme_names_every_variable(role):
    text = (role / "README.md").read_text()
    assert all(f"`{name}`" in text for name in load(role / "defaults" / "main.yml"))


@each_file
def test_no_task_hides_an_error(path):
    text = path.read_text()
    assert not [word for word in FORBIDDEN if word in text]


@each_file
def test_every_command_says_when_it_changed_something(path):
    for task in tasks(load(path)):
        command = task.get("ansible.builtin.command") or task.get("ansible.builtin.shell")
        if command:
            creates = isinstance(command, dict) and "creates" in command
            assert "changed_when" in task or creates, task["name"]


@each_file
def test_only_builtin_modules_are_used(path):
    keys = {key for task in tasks(load(path)) for key in task if "." in key}
    assert all(key.startswith("ansible.builtin.") for key in keys), keys


@each_file
def test_delegated_tasks_do_not_become_root_on_the_controller(path):
    for task in tasks(load(path)):
        if task.get("delegate_to") == "localhost":
            assert task.get("become") is False, task["name"]


def test_no_play_becomes_as_a_whole_nor_sets_group_vars_beside_the_playbooks():
    plays = [play for path in (ROOT / "playbooks").glob("*.yml") for play in load(path)]
    assert not [play["name"] for play in plays if "become" in play]
    assert not (ROOT / "playbooks" / "group_vars").exists()


def test_plays_that_touch_hosts_leave_out_those_that_were_stopped():
    for name in ("burnin", "collect"):
        [play] = load(ROOT / "playbooks" / f"{name}.yml")
        first = play["tasks"][0]
        assert first["ansible.builtin.meta"] == "end_host" and "gpuburn_stopped is defined" in first["when"]


def test_planning_all_hosts_cannot_fail_all_hosts():
    """One that printed nonsense is refused by name; a task that runs once and fails would stop the others."""
    [planned, told] = tasks(load(ROOT / "roles/preflight/tasks/plan.yml"))
    assert planned["run_once"] and planned["failed_when"] is False
    assert "rc | default(1) == 0" in told["ansible.builtin.set_fact"]["__preflight_told"]


def test_what_came_from_a_host_is_never_fetched_over():
    [fetch] = [task for task in tasks(load(ROOT / "roles/collect/tasks/main.yml")) if "ansible.builtin.fetch" in task]
    variables = load(ROOT / "roles/collect/vars/main.yml")
    assert fetch["ansible.builtin.fetch"]["dest"] == "{{ __collect_arriving }}"
    assert variables["__collect_arriving"].endswith("~new.tar.gz")


def test_before_the_inventory_is_checked_no_task_is_a_hosts_own():
    for task in tasks(load(ROOT / "roles/preflight/tasks/expect.yml")):
        assert task["delegate_to"] == "localhost" and task["run_once"] is True, task["name"]


def test_a_task_that_runs_once_in_the_report_cannot_fail_every_host():
    [run_once] = [task for task in tasks(load(ROOT / "roles/acceptance/tasks/main.yml")) if task.get("run_once")]
    assert run_once["failed_when"] is False
