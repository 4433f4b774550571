"""The calls. Each parses, narrows the caller, runs a flow and shapes the answer; no rule and no storage of its own."""
