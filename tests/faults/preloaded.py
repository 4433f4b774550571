"""What processes are forked from: everything imported, and each thing done once that is slow when it is done first."""

import tempfile
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401
import sqlalchemy.dialects.mysql.asyncmy  # noqa: F401

from deployments.edge.apps import context_app, memory_app
from memory.encoding import Passage
from memory.gate import judge_explicit
from memory.policy import Policy
from models.encoder import Encoder
from models.settings import EncoderSettings
from models.tokens import counter_for
from tests.faults import raging, stories  # noqa: F401
from tests.faults.model import prepared_model


def warm() -> None:
    """No threads: none of them would live in a fork."""
    import torch

    torch.set_num_threads(1)
    policy: Any = Policy()
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepared_model(Path(folder))
        Encoder.load(EncoderSettings(folder=prepared, dtype="float32")).encode_passages([Passage("warm")])
    counter_for(policy.prompt.model)("warm")
    judge_explicit("I like tea.", policy=policy.gate)
    memory_app()
    context_app()


warm()
