"""A stand-in for Weaviate, on the wire: REST and gRPC as `weaviate-client` speaks them, for tests where no real server is at hand.

**It proves usage, not semantics.** It shows that we call the server as it wants to be called and that we understand what it says:
its answers are those that a real 1.40 was seen to give, word for word where a text is known, and `test_facts.py` holds one table of
them that runs against the real server too (`STRATA_TEST_WEAVIATE=http://host:port,grpc-port`). What it cannot show is what only the
real one has: files, compaction, memory, approximate indexes, several nodes, statistics that lag behind deletions, time.

`python -m tests.standin` starts one and prints its address. All is in memory and gone with the process.
"""
