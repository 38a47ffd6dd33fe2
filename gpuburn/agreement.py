"""Who is wrong when some must say the same: the minority, if there is one; nobody can tell, if there is none."""

from __future__ import annotations

from collections import Counter


def disagreeing(said: dict[str, str]) -> dict[str, str]:
    """{subject: "minority" or "undecided"} for those who cannot pass; empty where all agree.

    More than half must agree before the others are called wrong: two devices that differ are both undecided.
    """
    counts = Counter(said.values())
    if len(counts) < 2:
        return {}
    value, most = counts.most_common(1)[0]
    if 2 * most > len(said):
        return {subject: "minority" for subject, one in said.items() if one != value}
    return dict.fromkeys(said, "undecided")
