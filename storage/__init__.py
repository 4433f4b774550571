"""The stores: sessions (Redis), records (SQL) and the vector index, each behind one protocol."""
