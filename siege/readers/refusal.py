"""What a reader may do with a file: read it, or refuse it with a message."""

from collections.abc import Callable, Iterator

from siege.case import BrokenPromiseError

LONGEST_MESSAGE = 4000


def outcome_of(read: Callable[[], object], *refusals: type[Exception]) -> str:
    """Whether a file was read or refused; BrokenPromiseError if the refusal came too late or says too much."""
    try:
        read()
    except refusals as error:
        if any(isinstance(cause, MemoryError) for cause in _causes(error)):
            raise BrokenPromiseError(f"it was refused only when memory ran out: {str(error)[:200]}") from error
        if len(str(error)) > LONGEST_MESSAGE:
            raise BrokenPromiseError(f"a message of {len(str(error))} characters: {str(error)[:200]}") from error
        return "refused"
    return "read"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
