"""The training workload: a small decoder, a language that can be learnt, the loop, and its checkpoints."""
