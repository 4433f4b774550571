"""What is wrong with manifests and nobody else says: each rule is a function of the rendered objects."""

from deployments.kubernetes.lint import pods, rayservice, serve, surroundings
from deployments.kubernetes.lint.documents import Document, Finding

RULES = (*rayservice.RULES, *serve.RULES, *pods.RULES, *surroundings.RULES)


def findings(documents: list[Document]) -> list[Finding]:
    """Everything that every rule finds, in the order of the rules."""
    return [finding for rule in RULES for finding in rule(documents)]


__all__ = ["RULES", "Document", "Finding", "findings"]
