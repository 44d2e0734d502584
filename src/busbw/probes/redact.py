"""Secrets among variables, words of command lines and settings, replaced. A guess, from names and forms."""

from __future__ import annotations

import re
from typing import Any, Final

REDACTED: Final = "[redacted]"

_SECRET_WORDS: Final = frozenset(
    (
        "KEY",
        "KEYS",
        "APIKEY",
        "AUTH",
        "AUTHORIZATION",
        "JWT",
        "CRED",
        "CREDS",
        "COOKIE",
        "PASS",
        "PWD",
        "PRIVATE",
        "SSHPASS",
        "DBPASS",
        "PAT",
        "SAS",
        "DSN",
    )
)
# Anywhere in the name, so that AUTHTOKEN or MYPASSWORD are caught too.
_SECRET_PARTS: Final = ("TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL")
_SECRET_VALUE: Final = re.compile(
    r"""(?ix)
    \b(bearer|basic)\s+\S{8,}                                 # an Authorization header
    | \b[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:[^/\s@]+@                # scheme://user:password@host
    | (?<![a-z0-9])(password|passwd|token|secret)\s*[=:]\s*\S
    | (?<![a-z0-9])(api|access|account|private)_?(access_?)?key\s*[=:]\s*\S
    | --(password|passwd|token|secret|api-?key|access-?key)\s+\S
    | (?<![\w-])eyJ[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}                      # JSON web token
    | \b(ghp_|gho_|ghs_|github_pat_|glpat-|hf_|xox[abp]-|sk-)[a-z0-9_-]{16,}
    | \bAKIA[0-9A-Z]{12,}                                     # an AWS access key id
    | -----BEGIN
    """
)


# A whole word, whose value may hold anything: NAME=VALUE, --env=NAME=VALUE, --flag=VALUE.
_PAIR: Final = re.compile(r"(--env=|--)?([A-Za-z_][\w-]*)=(.*)", re.DOTALL)
# Parts of one: --export=ALL,NAME=VALUE, and -genv NAME VALUE of MPICH's mpiexec.
_PART: Final = re.compile(r"""(?<![\w-])([A-Za-z_]\w*)(=)('[^']*'|"[^"]*"|[^\s,]*)""")
_GENV: Final = re.compile(r"(?<=-genv )([A-Za-z_]\w*)( +)(\S+)")


def redact_text(text: str) -> str:
    """A word of a command line, or a line about variables, with secrets in its ``NAME=VALUE`` replaced."""
    if whole := _PAIR.fullmatch(text):
        before, name, value = whole[1] or "", whole[2], whole[3]
        is_flag = before == "--"  # its value may hold pairs, of which not all are secrets
        if _is_secret(name) if is_flag else redact(name, value) == REDACTED:
            return f"{before}{name}={REDACTED}"

    def shown(pair: re.Match[str]) -> str:
        return f"{pair[1]}{pair[2]}{redact(pair[1], pair[3])}"

    return _GENV.sub(shown, _PART.sub(shown, text))


def redact_all(value: Any) -> Any:  # noqa: ANN401 (what json.loads gives)
    """Settings as JSON has them, with ``redact_text`` of every text in them."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {name: redact_all(each) for name, each in value.items()}
    return [redact_all(each) for each in value] if isinstance(value, list | tuple) else value


def redact(name: str, value: str) -> str:
    """The value, or REDACTED where the name or the value itself says that it is a secret."""
    return REDACTED if value and (_is_secret(name) or _SECRET_VALUE.search(value)) else value


def _is_secret(name: str) -> bool:
    upper = name.upper()
    words = set(re.split(r"[^A-Z0-9]+", upper))
    return bool(words & _SECRET_WORDS) or any(part in upper for part in _SECRET_PARTS)
