"""The inference workload: a small decoder with a KV cache, served greedily, step by step."""
