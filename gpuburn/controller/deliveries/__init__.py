"""A delivery: an order or a lot, over all the runs that tried its hosts. Attempts, yield, partial acceptance."""
