"""What Kubernetes is given: generated from the same files that everybody else starts from, and looked at before it is applied."""
