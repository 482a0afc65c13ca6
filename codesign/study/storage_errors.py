"""What a database says when it cannot be used, as one sentence for the person at the keyboard."""

from collections.abc import Iterator
from contextlib import contextmanager

from codesign.core.errors import MissingDependencyError, UserError

_CAUSES = (
    (("disk is full", "no space left", "disk full", "disk i/o error"), "the disk is full or failing",
     "free some space and run the same command again; finished trials are kept"),
    (("readonly database", "read-only", "permission denied"), "it is read-only", "choose another --out or --storage"),
    (("no such file or directory", "not a directory"), "its folder cannot be made", "choose another --out or --storage"),
    (("unable to open database file",), "it cannot be opened", "check that its folder exists and may be written"),
    (("database is locked", "lock timeout"), "another process holds it locked", "try again, or use a database server"),
    (("not a database", "malformed"), "the file is not a database, or is damaged", None),
    (("no such table",), "the file holds no study", "`codesign explore --out FOLDER` makes one; an empty file may be removed"),
    (("password authentication", "authentication failed", "no password supplied"), "user or password were refused", None),
    (("does not exist", "unknown database"), "the server has no such database or user", "create it, e.g. with createdb"),
    (("could not connect", "connection refused", "connection failed", "could not translate", "timeout expired",
      "server closed the connection", "connection is lost", "terminating connection", "failed to resolve", "closed"),
     "the server cannot be reached", "check the address, and that it is running; finished trials are kept"),
)  # fmt: skip
"""Fragments of drivers' messages -> what they mean, how to mend it."""


@contextmanager
def database_errors(place: str) -> Iterator[None]:
    """Turn what SQLAlchemy, its drivers and Optuna raise about a database into a `UserError`.

    Args:
        place: The database, without its password.
    """
    import optuna
    import sqlalchemy.exc

    try:
        yield
    except ImportError as error:
        cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error  # Optuna raises one of its own
        raise MissingDependencyError(
            f"the database {place} needs the package {cause.name or 'of its driver'!r}",
            hint="for PostgreSQL: pip install 'accel-codesign[postgres]'",
        ) from None
    except sqlalchemy.exc.IntegrityError:
        raise  # a row that is there already: callers decide
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError, RuntimeError, OSError) as error:
        if isinstance(error, RuntimeError) and "version" not in str(error):
            raise  # Optuna says so when the tables are of another version; any other is a fault of ours
        raise _explain(place, error) from None


def _explain(place: str, error: BaseException) -> UserError:
    messages = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(" ".join(str(cause).split()))
        cause = cause.__cause__
    text = messages[-1] if len(messages) > 1 else messages[0]
    for fragments, meaning, hint in _CAUSES:
        if any(fragment in message.lower() for message in messages for fragment in fragments):
            return UserError(f"cannot use the study database {place}: {meaning}", where=text[:160], hint=hint)
    return UserError(f"cannot use the study database {place}: {text[:300]}")
