"""The production tier's index: Weaviate, one multi-tenant collection per embedding model, a shard per tenant.

Nothing is imported here: the settings are read where the client (an extra) is not installed.
"""
