"""What is told to the outside: metrics, traces and log lines. Ids, sizes and times; never a user's words."""
