"""Body and answer of the context call."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictInt, StringConstraints, WithJsonSchema, model_validator

from deployments.edge.bodies.fields import Answer, Body, Content, Count, Identifier, Question, wrong
from deployments.edge.requests import ContextRequest, Document
from memory.errors import InvalidInput
from memory.policy import PromptPolicy
from memory.turns import MemoryMode

MAX_DOCUMENTS = 200
MAX_TOOLS = 128


def _tool(value: dict[str, Any]) -> dict[str, Any]:
    """A tool definition goes to the model as it came; only its outline is looked at."""
    if not isinstance(value.get("type"), str):
        raise wrong("must be a text such as `function`", at="type")
    if value["type"] == "function":
        function = value.get("function")
        if not isinstance(function, dict):
            raise wrong("must be an object with the function's name", at="function")
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise wrong("must be the function's name", at="function.name")
    return value


Tool = Annotated[
    dict[str, Any],
    AfterValidator(_tool),
    WithJsonSchema({"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}),
]


class SectionsBody(Body):
    """Caps in tokens that this call sets instead of the policy's."""

    summary: Count | None = None
    memories: Count | None = None
    documents: Count | None = None
    slots: Count | None = None


class DocumentBody(Body):
    id: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]
    text: Content


class ContextBody(Body):
    session_id: Identifier | None = Field(default=None, description="Required with a tenant key.")
    user_id: Identifier | None = None
    query: Question | None = Field(default=None, description="None: the session's last user turn is the question.")
    system: Content | None = None
    budget_tokens: Annotated[StrictInt, Field(ge=1, le=2_000_000)] | None = None
    output_reserve: Count | None = None
    model: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None
    sections: SectionsBody = SectionsBody()
    tools: list[Tool] | None = Field(default=None, max_length=MAX_TOOLS)
    documents: list[DocumentBody] | None = Field(default=None, max_length=MAX_DOCUMENTS)
    memory: MemoryMode = MemoryMode.ON

    @model_validator(mode="after")
    def _reserve_fits(self) -> "ContextBody":
        if (
            self.budget_tokens is not None
            and self.output_reserve is not None
            and self.output_reserve >= self.budget_tokens
        ):
            raise wrong("must be less than budget_tokens", at="output_reserve")
        return self

    def request(self, policy: PromptPolicy) -> ContextRequest:
        """InvalidInput where one of the two token counts does not fit the policy's other."""
        budget = policy.budget_tokens if self.budget_tokens is None else self.budget_tokens
        reserve = policy.output_reserve if self.output_reserve is None else self.output_reserve
        if reserve >= budget:
            if self.output_reserve is not None:
                raise InvalidInput("output_reserve", f"must be less than the tenant's budget of {budget} tokens")
            raise InvalidInput("budget_tokens", f"must be more than the tenant's output reserve of {reserve} tokens")
        return ContextRequest(
            query=self.query,
            system=self.system,
            budget_tokens=self.budget_tokens,
            output_reserve=self.output_reserve,
            model=self.model,
            sections=self.sections.model_dump(exclude_none=True),
            tools=tuple(self.tools or ()),
            documents=tuple(Document(document.id, document.text) for document in self.documents or ()),
            memory=self.memory,
        )


# --- answers ----------------------------------------------------------------------------------------------------------


class TokensAnswer(Answer):
    total: int
    budget: int
    by_section: dict[str, int]


class UsedMemory(Answer):
    id: str
    content: str
    kind: str
    status: str
    score: float
    why: str


class CutAnswer(Answer):
    section: str
    items: int
    tokens: int


class ContextBodyAnswer(Answer):
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    tokens: TokensAnswer
    memories: list[UsedMemory]
    cut: list[CutAnswer]
    degraded: list[str]
    prefix_hash: str
