"""The production tier's index: Weaviate, one multi-tenant collection per embedding model, a shard per tenant."""
