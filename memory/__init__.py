"""The rules of memory: pure functions and types. No I/O, no Ray, no clock: time is an argument."""
