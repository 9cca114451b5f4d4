"""away: which files stay at home, because they look like keys or passwords.

What is left behind is only told, so this is wider than what the gate asks about. Code must travel.
"""

import os
import re
from collections.abc import Iterator, Sequence

from gencode.permissions.secrets import folded, is_secret

LARGEST_KEY = 128 << 10
"""Larger files are not looked into."""
_DATA = "(json|ya?ml|toml|ini|cfg|conf|xml|csv|txt|properties)"
_NAMES = re.compile(
    "|".join(
        (
            r"\.env[-_~].*|.+\.env|\.dev\.vars(\..+)?|local\.settings\.json",
            rf"\.?(credentials?|secrets?|passwords?|passwd)(\.{_DATA})?|\.passwd-s3fs|\.smbcredentials",
            r"application_default_credentials\.json|credentials\.tfrc\.json|gha-creds-.*\.json",
            r"client[-_]?secrets?.*\.json|service[-_]?accounts?.*\.json|(auth|token)\.json|\.token",
            r"id_(rsa|dsa|ecdsa|ed25519|xmss)([-_][^.]*)?|ssh_host_[a-z0-9]+_key",
            r".+\.(jks|bks|keystore|truststore|keytab|p8|pkcs12|ppk|kdbx|ovpn|agekey|keychain(-db)?)",
            r"\.?keystore|(key|keystore|signing)\.properties|secring\.(gpg|pgp|skr)",
            r".+\.(tfstate|tfvars|tfvars\.json)|\.terraformrc|terraform\.rc",
            r"\.?kubeconfig(\.(ya?ml|json|conf))?|.+\.kubeconfig",
            r"\.dockercfg|\.dockerconfigjson|\.vault[-_](token|pass(word)?)(\..+)?|\.?htpasswd",
            r"_netrc|pgpass\.conf|\.(my|mylogin)\.cnf|\.s3cfg|\.boto|\.databrickscfg|\.msmtprc|\.fetchmailrc",
            r"\.[a-z0-9_]+_history",
        )
    )
)
_PLACES = frozenset(
    {
        (".docker", "config.json"),
        (".m2", "settings.xml"),
        (".m2", "settings-security.xml"),
        (".oci", "config"),
    }
)
_FOLDERS = frozenset({".password-store", ".terraform.d"})
_SAMPLE = re.compile(r"(example|sample|template)[-_.].*|.*[-_.](example|sample|template|dist)(\.[a-z]+)?")
_SPARE = re.compile(r"(.+?)(~|[._-](bak|backup|old|orig|save|copy|tmp|swp|swo))")
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\\[rn]|\s)+"
    rb"(?:[A-Za-z-]+: [^\n]*(?:\\[rn]|\s)+)*[A-Za-z0-9+/]{16}"
    rb"|AGE-SECRET-KEY-1[0-9A-Z]{16}"
)
_PLAIN_KEY = re.compile(
    rb"0(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01(?:[\x00\x01]0[\x00-\x7f]\x06|\x00\x02[\x40-\xff]|\x01\x04[\x10-\x50])",
    re.S,
)
"""How a private key begins that is written in DER: PKCS #8, RSA or elliptic curves."""


def is_key(name: bytes) -> bool:
    """Whether a file is called like one that holds keys or passwords, or like an old version of one."""
    components = folded(os.fsdecode(name))
    return any(_is_named(each) for each in _versions(components))


def has_key(contents: bytes) -> bool:
    """Whether a private key is in a file, whatever it is called."""
    if _KEY.search(contents) or _PLAIN_KEY.match(contents):
        return True
    return b"\0" in contents and _KEY.search(contents.replace(b"\0", b"")) is not None  # letters of two bytes


def _versions(components: Sequence[str]) -> Iterator[Sequence[str]]:
    """A path, and the same without what editors and people put at the end of a file's name."""
    yield components
    if not components:
        return
    *above, last = components
    bare = last.strip("#")
    while spare := _SPARE.fullmatch(bare):
        bare = spare[1]
        yield (*above, bare)
        yield (*above, bare.removeprefix("."))
    if bare != last:
        yield (*above, bare)


def _is_named(components: Sequence[str]) -> bool:
    if is_secret(components, absolute=False) or not _FOLDERS.isdisjoint(components):
        return True
    if tuple(components[-2:]) in _PLACES:
        return True
    return (
        bool(components) and bool(_NAMES.fullmatch(components[-1])) and not _SAMPLE.fullmatch(components[-1])
    )
