"""What a request does, step by step: fetch, call rules, store. No HTTP here, no Ray, and no rule."""
