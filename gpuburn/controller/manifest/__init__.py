"""What was ordered against what is there: reading a vendor's list, comparing a host with it, writing one from a run."""
