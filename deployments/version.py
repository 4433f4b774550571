"""The release, as answers, spans and metrics name it."""

VERSION = "0.1.0"
