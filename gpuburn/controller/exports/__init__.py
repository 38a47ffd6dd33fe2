"""One format a file: each declares FORMAT, and is found by being here."""
