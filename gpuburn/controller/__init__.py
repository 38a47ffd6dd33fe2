"""The side that runs on the controller: resolves plans, collects results, judges them again, reports."""
