"""The table in docs/methods.md is what the tests show. GPUBURN_WRITE_DOCS=1 writes it anew."""

from __future__ import annotations

import os
import re

from caught import table
from gpuburn.policy import Decision


def test_the_table_says_what_the_tests_show() -> None:
    made = table.filled(table.PAGE.read_text())
    if os.environ.get("GPUBURN_WRITE_DOCS") == "1":
        table.PAGE.write_text(made)
    assert table.PAGE.read_text() == made, "run this test with GPUBURN_WRITE_DOCS=1 and read the difference"
    assert made.count(table.table()) == 1


def test_every_fault_that_is_caught_is_kept_from_acceptance() -> None:
    rows = table.rows()
    assert len(rows) >= 35
    for row in rows:
        assert row.accuses or row.decision != str(Decision.ACCEPTED), row
        assert not row.accuses or row.decision != str(Decision.REJECTED), row


def test_every_address_is_one() -> None:
    named = [(row.peer, row.where) for row in table.rows() if row.where]
    for peer, where in named:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+(?:[#!]\d+|:[\w./-]+)?", where), where
        assert table.link(peer, where).endswith(")")
    assert table.link("A", "a/b!7") == "[A #7](https://github.com/a/b/pull/7)"
    assert table.link("A", "a/b:c/d.py") == "[A d.py](https://github.com/a/b/blob/HEAD/c/d.py)"
