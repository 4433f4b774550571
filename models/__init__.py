"""Runtimes for the models: encoder, reranker, summarizer, tokenizers, and the queue that batches for them."""
