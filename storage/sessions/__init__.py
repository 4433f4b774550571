"""The session tier: whatever speaks the Redis protocol. Nothing lives only here that must survive it."""
