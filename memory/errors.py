"""The errors of Strata: one small family, each mapped once to a problem document at the edge.

Every error takes positional arguments only, so that it survives pickling across a Serve handle. No error ever
carries a user's text, a stored value or a server's own message: a field name and a fix are all that a caller needs.
"""


class StrataError(Exception):
    """The family's root. `status` is the HTTP status, `slug` the stable end of the problem's `type`."""

    status = 500
    slug = "internal"

    @property
    def detail(self) -> str:
        """One sentence for the caller."""
        return "Something went wrong on our side."


class InvalidInput(StrataError):
    """A field is wrong. `field` is its path ("turns.3.content"), `fix` says what would be accepted."""

    status = 422
    slug = "invalid-input"

    def __init__(self, field: str, fix: str) -> None:
        super().__init__(field, fix)
        self.field = field
        self.fix = fix

    @property
    def detail(self) -> str:
        return f"{self.field}: {self.fix}"


class MalformedBody(InvalidInput):
    """The body cannot be read at all: not UTF-8, not JSON, NUL or lone surrogates in it."""

    status = 400
    slug = "malformed-body"


class TooLarge(InvalidInput):
    """The body, or one text in it, is over a limit."""

    status = 413
    slug = "too-large"


class OverBudget(StrataError):
    """What must stay in the prompt is `over` tokens more than the budget."""

    status = 422
    slug = "over-budget"

    def __init__(self, over: int, budget: int) -> None:
        super().__init__(over, budget)
        self.over = over
        self.budget = budget

    @property
    def detail(self) -> str:
        return (
            f"budget_tokens: the parts that are never cut (system prompt, tool definitions, question) exceed the budget of "
            f"{self.budget} tokens by {self.over}; raise budget_tokens or shorten them."
        )


class Unauthenticated(StrataError):
    """No credential, or one that is malformed, unknown, expired or revoked. `why` is one of our own sentences."""

    status = 401
    slug = "unauthenticated"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    @property
    def detail(self) -> str:
        return self.why


class Forbidden(StrataError):
    """The credential is good but lacks `grant`."""

    status = 403
    slug = "forbidden"

    def __init__(self, grant: str) -> None:
        super().__init__(grant)
        self.grant = grant

    @property
    def detail(self) -> str:
        return f"This credential lacks the scope `{self.grant}`."


class NotFound(StrataError):
    """Does not exist, or is another's: the two are never told apart. `what` is a noun ("session", "memory")."""

    status = 404
    slug = "not-found"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    @property
    def detail(self) -> str:
        return f"No such {self.what}."


class Conflict(StrataError):
    """Somebody else was first. `version` is the current version where there is one."""

    status = 409
    slug = "conflict"

    def __init__(self, what: str, version: int | None = None) -> None:
        super().__init__(what, version)
        self.what = what
        self.version = version

    @property
    def detail(self) -> str:
        return self.what


class IdempotencyMismatch(StrataError):
    """The same Idempotency-Key came with another body."""

    status = 422
    slug = "idempotency-mismatch"

    @property
    def detail(self) -> str:
        return "Idempotency-Key: already used with another body; send a new key for a new request."


class Overloaded(StrataError):
    """A bounded queue or a quota is full. Try again after `retry_after_s` seconds. `what` names it."""

    status = 429
    slug = "overloaded"

    def __init__(self, what: str, retry_after_s: float) -> None:
        super().__init__(what, retry_after_s)
        self.what = what
        self.retry_after_s = retry_after_s

    @property
    def detail(self) -> str:
        return f"Too much at once for {self.what}; try again in {self.retry_after_s:.0f} s."


class Unavailable(StrataError):
    """A store or model that this call cannot do without is away. `what` names it ("sessions", "records")."""

    status = 503
    slug = "unavailable"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    @property
    def detail(self) -> str:
        return f"{self.what} cannot be reached at the moment; nothing was changed."


class DeadlineExceeded(StrataError):
    """`what` did not answer within its deadline."""

    status = 504
    slug = "deadline-exceeded"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    @property
    def detail(self) -> str:
        return f"{self.what} did not answer in time."


class ConfigError(StrataError):
    """Start-up must stop. `where` is a file or setting, `fix` one line that says what to do."""

    slug = "configuration"

    def __init__(self, where: str, fix: str) -> None:
        super().__init__(where, fix)
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.where}: {self.fix}"
