"""The edge: HTTP in, HTTP out. Credentials become scopes here, bodies become memory types, errors become problem documents."""
