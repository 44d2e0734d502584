"""Secrets in names, values, texts and settings, replaced: the one place that says what a secret is.

A guess, from names (``HF_TOKEN=``, ``"password":``, ``?sig=``) and from forms (``https://TOKEN@host``, the
keys of well-known services, private key blocks, long words of mixed letters and digits). A secret passes
where its name is innocent and it is short, or written in one case as checksums and ids are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import pairwise, takewhile
from typing import Any, Final

REDACTED: Final = "[redacted]"
HIDDEN: Final = "..."  # what a dry run shows
HIDDEN_NOTE: Final = (
    "secrets are shown as ...: this text does not run as it is; --show-secrets shows them whole"
)

# ---- names ------------------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]")
_SECRET_WORD: Final = re.compile(
    r"""(?x)
    .*SECRET.* | .*CREDENTIALS? | .*TOKEN | .*PASSW.* | .*PASSPHRASE | .*PASSCODE | .*(?<!BY)(?<!COM)PASS
    | (API|ACCESS|AUTH|PRIVATE|PRIV|SSH|SIGNING|MASTER|ACCOUNT|SHARED)KEYS? | AUTHZ? | AUTHORIZATION | JWT
    | CREDS? | COOKIES? | .*SESS(ION)?ID | PS?WD | PSW | .*PW | PWORD | PSK | BEARER | T?OTP | HMAC | PAT
    | SAS | DSN | SIG | SIGNATURE
    """
)
# Two words; tokens alone are what a model reads.
_SECRET_PAIR: Final = re.compile(r"SESSION ID|(REFRESH|ACCESS|AUTH|API|BEARER|SESSION) TOKENS")
# Before KEY, these make the name of no secret; KEY alone is none either (a YAML file is full of it).
_OPEN_KEYS: Final = frozenset(
    ("PUBLIC", "TOPOLOGY", "SORT", "PRIMARY", "FOREIGN", "PARTITION", "CACHE", "CASE")
)
# At the end of a name, these say that the value is about a secret: SSH_AUTH_SOCK, secretName.
_ABOUT: Final = frozenset(
    ("SOCK", "SOCKET", "NAME", "NAMES", "REF", "TYPE", "METHOD", "MODE", "SIZE", "LENGTH")
)
_NO_VALUE: Final = re.compile(r"(?i)true|false|null|none|yes|no|on|off|unset|\[redacted\]|\.\.\.")


def is_secret(name: str) -> bool:
    """Whether the name of a variable, setting or header says that its value is a secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    if not words or _is_about(name):
        return False
    is_pair = any(
        (word in ("KEY", "KEYS") and before not in _OPEN_KEYS) or _SECRET_PAIR.fullmatch(f"{before} {word}")
        for before, word in pairwise(words)
    )
    return is_pair or any(map(_SECRET_WORD.fullmatch, words))


def _is_about(name: str) -> bool:
    words = _WORD.findall(name)
    return bool(words) and words[-1].upper() in _ABOUT


def _is_secret_value(name: str, value: str) -> bool:
    if not value or _NO_VALUE.fullmatch(value):
        return False
    is_folder = name in ("PWD", "OLDPWD") and value.startswith("/")
    is_login = name == "XDG_SESSION_ID"  # a small number
    return is_secret(name) and not is_folder and not is_login


# What stands for a value that a shell knows: $(...), $NAME.
_IN_SHELL: Final = re.compile(r'"?\$+(\(|\{?[A-Z_][A-Z0-9_]*\b)')

# ---- forms ------------------------------------------------------------------------------------------------

# Compiled where a text needs it: that takes longer than all else here.
_FORM: Final = r"""(?xs)
    -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY.*?(?:-----END[^-]*-----|\Z)
    | (?<=://)[^\s/@:"'\[]*:[^\s/"'\[]+(?=@)                          # scheme://user:password@host
    | (?:(?<=http://)|(?<=https://)|(?<=ftp://))[^\s/@:"'\[]+(?=@)    # https://TOKEN@host
    # user:password@host; an image's name:tag@sha256: and ports are none
    | (?<![\w/:.@+-])[\w.+-]+:(?!\d+@)[^\s/@:"'\[]+(?=@(?!sha\d)\w)
    | (?<=[?&])(?:key|code)=[^\s&"']+
    | (?:(?<=hooks\.slack\.com/services/)|(?<=/api/webhooks/))[\w/-]+    # who has the address may write
    | (?:(?<=(?<![\w-])-b[ ])|(?<=(?<![\w-])-b[ ]["']))[\w.-]+=[^\s"']+   # curl's cookies
    | \b(?i:bearer)\s+[\w.~+/=-]{6,}
    | \b(?i:basic)\s+[A-Za-z0-9+/]{8,}={1,2}
    # curl's -u and --proxy-user NAME:PASSWORD, in quotes or not; user and group ids are none
    | (?:(?<=(?<![\w-])-u[\s=])|(?<=(?<![\w-])-u[\s=]["'])|(?<=-user[\s=])|(?<=-user[\s=]["']))
      (?!\d+:\d+\b)[\w.@+-]+:[^\s"']+
    | (?<![A-Za-z0-9])(?:
        gh[opsur]_[A-Za-z0-9]{16,} | github_pat_\w{16,} | gl(?:pat|ptt|dt|rt)-[\w-]{16,}
        | (?:hf|api_org)_[A-Za-z0-9]{16,}
        | nvapi-[\w-]{16,} | wandb_v\d_\w{16,} | (?:xox[abeprs]|xapp)-[\w-]{10,} | sk[-_][\w-]{16,}
        | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{30,} | dckr_pat_[\w-]{16,} | AIza[\w-]{30,} | ya29\.[\w-]{16,}
        | (?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}                        # an AWS access key id
        | eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?                        # a JSON web token
      )
    # An AWS secret access key: 40 letters, digits, / and +, of all kinds
    | (?<![\w/+.-])(?=[A-Za-z/+]{0,39}\d)(?=[a-z0-9/+]{0,39}[A-Z])(?=[A-Z0-9/+]{0,39}[a-z])
      [A-Za-z0-9][A-Za-z0-9/+]{39}(?![\w/+=.-])
    # A long word of digits, capital and small letters, as random keys and base64 are; a C++ symbol is none
    | (?<![A-Za-z0-9])(?!Z[A-Z])(?=[A-Za-z]*\d+[A-Za-z]+\d)(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])
      [A-Za-z0-9]{24,}[\w+/=-]*
    """
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9]{24}|[A-Za-z0-9/+]{40}")

# Every text with a secret has one of these in it, in lower case: most texts are done with them alone.
_HINTS_OF_NAMES: Final = (
    *("token", "secret", "credential", "pass", "key", "auth", "jwt", "cred", "cookie", "pw", "pat", "sas"),
    *("dsn", "sig", "sess", "psw", "psk", "bearer", "otp", "hmac"),
)
_HINTS_OF_FORMS: Final = (
    *("@", "private key", "key=", "code=", "bearer", "basic", "-u ", "-b ", "-user", "gh"),
    *("slack.com", "webhooks", "glpat-", "glptt-", "gldt-", "glrt-", "hf_", "api_org_", "xox", "xapp-"),
    *("nvapi-", "wandb_", "sk-", "sk_", "npm_", "pypi-", "dckr_", "aiza", "ya29", "akia", "asia"),
    *("abia", "acca", "eyj"),
)

# Programs that take a password, or a key, without a name: docker login -p VALUE, sshpass -pVALUE.
_UNNAMED: Final = re.compile(
    r"""(?x)
    ( (?:\b(?:docker|podman|buildah|nerdctl|skopeo|oras|crane|helm|az)\b[^\n|;&]*?\blogin\b
        | \b(?:sshpass|mysql(?:dump)?|ipmitool)\b)[^\n|;&]*?[ ]-[pP][ =]?
    | \bwandb[ ]login(?:[ ]+--\S+)*[ ]+(?=\w{32}) )
    ("[^"]*"|'[^']*'|[^\s"']+)
    """
)

_HINTS_OF_UNNAMED: Final = ("login", "sshpass", "mysql", "ipmitool")

# ---- names with values in a text --------------------------------------------------------------------------

# NAME=, "NAME": , NAME => , NAME -> , NAME%3D, <NAME>, --NAME VALUE, -NAME VALUE, -genv NAME VALUE, .netrc's
# words, and the pair of a list of variables: name: NAME, value: VALUE. A backslash may stand before a quote,
# as in JSON within JSON.
# With blanks or a comma between ("the password is VALUE") the value must have both letters and digits.
_NAME: Final = re.compile(
    r"""(?x)
    \b(?:name|key)\\*["']?\s*[:=]\s*\\*["']?(?P<listed>[A-Za-z_][\w.-]*)\\*["']?[\s,]*
        \\*["']?value\\*["']?\s*[:=][ \t]*
    | (?:-genv|-env|\bsetenv)[ ]+(?P<given>[A-Za-z_]\w*)[ ]+
    | \b(?:machine|login)[ ]+\S+[ ]+(?P<login>password)[ ]+
    | (?<![\w-])--?(?P<flag>[A-Za-z][\w-]*)(?:[ ]+(?!-)|=)
    | (?:(?<![\w.-])|(?<=%[0-9A-F]{2}))(?P<plain>[A-Za-z_][\w.-]*)\\*["']?[ \t]*
        (?P<sign>=>|(?<=\s)->(?=\s)|:=|==?|:(?!//)|%3[Dd]|>(?=[^<>\s]+</))[ \t]*
    | (?<![\w.-])(?P<loose>[A-Za-z_][\w-]*)
        (?:\\*["']\s*,\s*\\*["']|\s+(?:is:?\s+)?(?:-\w\s*)?["']?)
        (?=[A-Za-z][A-Za-z/+]*\d|\d+(?!x)[A-Za-z])(?=[\w+/-]{8,}=*(?:[\s"',;)]|\Z))
    """
)
_VALUE_FIRST: Final = re.compile(
    r"""(?x)
    (?P<before>\bvalue["']?:[ ]*)(?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,"'}]+)
    (?P<between>[\s,]*["']?(?:name|key)["']?:[ ]*["']?)(?P<name>[A-Za-z_][\w.-]*)
    """
)
_SCHEME: Final = r"(?:(?i:bearer|basic|token|digest|apikey|negotiate)[ ]+)?"
_QUOTED: Final = r"""\\+"(?:[^"\\]|\\(?!"))*\\+"|"(?:[^"\\]|\\.)*"|'[^']*'"""
# A word as shells and lists have it, in which quoted pieces may hold anything.
_WORD_VALUE: Final = re.compile(
    rf"""{_SCHEME}(?:{_QUOTED}|[^\s"',;&)}}\]]|[)}}\]](?=[^\s"',;&)}}\]]))+""", re.DOTALL
)
# Behind a colon there may be several words, or, in YAML, a block of lines or a list of words.
_BLOCK: Final = r"[|>][+-]?[ \t]*(?:\n+(?P<indent>[ \t]+)\S[^\n]*(?:\n+(?P=indent)[^\n]*)*)"
_WORDS_BELOW: Final = r"(?:\r?\n[ \t]+(?:-[ \t]+)?[^\s:{\[]+(?=\s*(?:\n|\Z)))+"
_LINE_VALUE: Final = re.compile(
    rf"""{_BLOCK}|{_WORDS_BELOW}|{_SCHEME}(?:{_QUOTED}|[^\r\n"',)}}\]]|[)}}\]](?=[^\s"',)}}\]]))+""",
    re.DOTALL,
)
# A whole word of a command line, whose value may hold anything: NAME=VALUE, --env=NAME=VALUE, --flag=VALUE.
_PAIR: Final = re.compile(r"(--env=|--?)?([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)


def redact_text(text: str, mark: str = REDACTED) -> str:
    """Any text, with ``mark`` in the place of the secrets in it."""

    def value_first(pair: re.Match[str]) -> str:
        shown = redact(pair["name"], pair["value"].strip("\"'"), mark)
        value = _in_quotes(pair["value"], mark)
        return f"{pair['before']}{value}{pair['between']}{pair['name']}" if shown == mark else pair[0]

    lower = text.lower()
    if any(hint in lower for hint in _HINTS_OF_NAMES):
        text = "".join(_without_named(_VALUE_FIRST.sub(value_first, text), mark))
    if any(hint in lower for hint in _HINTS_OF_UNNAMED):
        text = _UNNAMED.sub(lambda found: found[1] + mark, text)
    has_form = any(hint in lower for hint in _HINTS_OF_FORMS) or _LONG_WORD.search(text)
    return re.sub(_FORM, mark, text) if has_form else text


def _without_named(text: str, mark: str) -> Iterator[str]:
    done = 0
    found = _NAME.search(text)
    while found:
        end = found.end()
        name = next(filter(None, found.group("listed", "given", "login", "flag", "plain", "loose")))
        is_open = (
            not is_secret(name) or text.startswith((REDACTED, HIDDEN), end) or _IN_SHELL.match(text, end)
        )
        form = _LINE_VALUE if found["sign"] == ":" or found["listed"] else _WORD_VALUE
        value = None if is_open else form.match(text, end)
        if value is not None and _is_secret_value(name, value[0].strip("\\\"' ")):
            yield text[done:end] + _in_quotes(value[0], mark)
            done = end = value.end()
        found = _NAME.search(text, end)
    yield text[done:]


def _in_quotes(value: str, mark: str) -> str:
    """The mark in the double quotes of a value, so that JSON stays JSON."""
    quote = re.match(r'\\*"', value)
    return f"{quote[0]}{mark}{quote[0]}" if quote and value.endswith(quote[0]) else mark


# ---- values -----------------------------------------------------------------------------------------------


def redact(name: str, value: str, mark: str = REDACTED) -> str:
    """The value, or the mark where the name or the value itself says that it is a secret."""
    return mark if _is_secret_value(name, value) or redact_text(value) != value else value


def redact_variables(environ: Mapping[str, str], mark: str = REDACTED) -> dict[str, str]:
    """Variables with their secrets replaced."""
    return {name: redact(name, value, mark) for name, value in environ.items()}


def redact_word(text: str, mark: str = REDACTED) -> str:
    """A word of a command line: what stands behind the name of a secret is one to the word's end."""
    whole = _PAIR.fullmatch(text)
    if whole is not None and _is_secret_value(whole[2], whole[3]):
        return f"{whole[1] or ''}{whole[2]}={mark}"
    return redact_text(text, mark)


def redact_words(words: Sequence[str], mark: str = REDACTED) -> tuple[str, ...]:
    """The words of a command line; a secret may stand in the word behind its flag, name or program."""
    found: list[str] = []
    for place, word in enumerate(words):
        flag = words[place - 1] if place else ""
        is_given = place > 1 and words[place - 2] in ("-genv", "-env") and _is_secret_value(flag, word)
        is_flagged = flag.startswith("-") and "=" not in flag and not word.startswith("-")
        is_whole = is_given or (is_flagged and _is_secret_value(flag, word))
        found.append(mark if is_whole else redact_word(word, mark))
    # What only the line shows (docker login -p VALUE): with the first piece of each word, for what a word of
    # several pieces hides is found above.
    pieces = (next(iter(word.split()), "") for word in found)
    line = [re.sub("[\"']", "", piece.rstrip(":")) or "_" for piece in pieces]
    shown = redact_text(" ".join(line), mark).split(" ")
    same = [a == b for a, b in zip(line, shown, strict=False)]
    if len(shown) != len(line):  # one mark for several words
        before, behind = _alike(line, shown), _alike(line[::-1], shown[::-1])
        same = [not before <= place < len(line) - behind for place in range(len(line))]
    return tuple(word if is_same else mark for word, is_same in zip(found, same, strict=True))


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    """How many words they have in common from the start."""
    pairs = zip(some, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def redact_all(value: Any, name: str = "") -> Any:  # noqa: ANN401 (what json.loads gives)
    """Values as JSON has them, and dataclasses as their fields, with the secrets of every text in them
    replaced. ``name`` is that of the field.
    """
    if isinstance(value, str):
        return REDACTED if _is_secret_value(name, value) else redact_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        listed = str(value.get("name", value.get("key", ""))) if "value" in value else ""
        return {key: redact_all(each, _name_of(str(key), listed, name)) for key, each in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if all(isinstance(each, str) for each in value) and not is_secret(name):
        return type(value)(redact_words(value))
    return type(value)(redact_all(each, name) for each in value)


def _name_of(key: str, listed: str, above: str) -> str:
    """Of a value in a mapping: what is below the name of a secret is one too, unless it is about it."""
    if key == "value" and listed:
        return listed
    return above if is_secret(above) and not _is_about(key) else key
