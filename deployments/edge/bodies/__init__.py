"""Bodies of requests and answers, typed: what is not named here is refused."""
