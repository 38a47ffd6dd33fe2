"""Which file system a path lies on, from mount tables as real machines have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuburn.agent import mounts

TABLE = r"""
22 27 0:20 / /proc rw,nosuid shared:12 - proc proc rw
27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
90 27 0:44 / /mnt/data rw,relatime shared:50 master:3 - nfs4 10.0.0.9:/export rw,vers=4.2
91 27 0:45 / /mnt/data/scratch rw - xfs /dev/md0 rw
92 27 0:46 / /mnt/with\040space rw - lustre 10.0.0.9@o2ib:/lus rw
93 27 0:47 / /mnt/over rw - xfs /dev/sdb rw
94 93 0:48 / /mnt/over rw - fuse.juicefs JuiceFS:x rw
95 27 8:1 / /mnt/usb rw - fuseblk /dev/sdc1 rw
96 27 0:49 / /mnt/datacentre rw - ceph 10.0.0.9:6789:/ rw
not a line of a mount table
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mountinfo"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize(
    ("path", "kind", "shared"),
    [
        ("/home/x", "ext4", False),
        ("/mnt/data/run", "nfs4", True),
        ("/mnt/data", "nfs4", True),
        ("/mnt/data/scratch/a", "xfs", False),
        ("/mnt/datacentre/a", "ceph", True),
        ("/mnt/with space/a", "lustre", True),
        ("/mnt/over/a", "fuse.juicefs", True),
        ("/mnt/usb/a", "fuseblk", False),
    ],
)
def test_the_innermost_mount_and_of_two_the_later_one_counts(table, path, kind, shared):
    found = mounts.of(Path(path), table)
    assert (found.kind, found.shared) == (kind, shared)


def test_without_a_path_the_fact_says_local_disk_only(table):
    assert mounts.told("", Path("/var/lib/gpuburn"), table) == "local disk only: the agent's own, ext4 at /"
    assert mounts.told("/mnt/data", Path("/mnt/data"), table) == "nfs4 at /mnt/data, shared with other hosts"
    assert mounts.told("/scratch", Path("/scratch"), table) == "ext4 at /, this host's own"


def test_an_own_disk_that_is_a_network_is_not_called_local(table):
    assert mounts.told("", Path("/mnt/data/lib"), table) == "no path given: nfs4 at /mnt/data, shared with other hosts"


def test_a_link_is_followed_to_the_file_system_that_it_leads_to(table, tmp_path):
    (tmp_path / "link").symlink_to("/mnt/data/x")
    assert mounts.of(tmp_path / "link", table).kind == "nfs4"


def test_a_table_that_holds_no_root_is_an_error(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(OSError, match="no mount holds"):
        mounts.of(tmp_path, tmp_path / "empty")


def test_this_machine_has_a_mount_for_every_path(tmp_path):
    assert mounts.of(tmp_path).point.startswith("/")
