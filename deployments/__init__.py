"""Ray Serve deployments and the command line: which process runs what."""
