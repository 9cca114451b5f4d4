"""Keys that nobody has committed stay at home, whatever git knows of them already; code travels."""

import subprocess
from pathlib import Path

import pytest
from tests.workspaces.transfer.post import Office, arrived, sent
from tests.workspaces.transfer.private_key import LINE, pem
from tests.workspaces.worktrees.yard import commit, everything, git, repository

from gencode.workspaces.transfer.excluded_files import has_private_key, is_secret_file


def names(folder: Path) -> list[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != ".git")


@pytest.mark.needs("git")
async def test_staged_keys_stay_at_home(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt="a\n", old_key="known\n", _gitignore="*.pfx\n")
    (repo / "st").mkdir()
    for name in (".env", "st/.env", "ita.pem", "forced.pfx", "notes.txt", "fine.py"):
        (repo / name).write_text(pem() if name == "notes.txt" else "TOKEN=secret\n")
    git(repo, "add", ".env", "st/.env", "notes.txt", "fine.py")
    git(repo, "add", "--force", "forced.pfx")
    git(repo, "add", "--intent-to-add", "ita.pem")
    git(repo, "mv", "a.txt", ".env.prod")
    (repo / ".env.prod").write_text("changed\n")
    git(repo, "add", ".env.prod")
    (repo / "old.key").write_text("known, and changed\n")
    before = everything(repo)
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert everything(repo) == before
    assert names(lodging.cwd) == [".gitignore", "fine.py", "old.key"]
    assert (lodging.cwd / "old.key").read_text() == "known, and changed\n"
    kept = ".env, .env.prod, forced.pfx, ita.pem, notes.txt, st/.env"
    assert snapshot.notes == (f"not sent: new files that may hold secrets: {kept}",)


@pytest.mark.needs("git")
async def test_staged_keys_stay_at_home_before_the_first_commit(tmp_path: Path, office: Office) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet")
    for name in (".env", "a.txt"):
        (repo / name).write_text("TOKEN=secret\n")
    git(repo, "add", ".")
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert names(lodging.cwd) == ["a.txt"]
    assert snapshot.notes == ("not sent: new files that may hold secrets: .env",)


@pytest.mark.needs("git")
async def test_of_keys_in_conflict_those_that_were_committed_here_travel(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", known_key="one\n", gone_key="one\n")
    git(repo, "checkout", "--quiet", "-b", "other")
    commit(repo, known_key="theirs\n", gone_key="theirs\n")
    git(repo, "checkout", "--quiet", "main")
    (repo / "gone.key").unlink()
    commit(repo, known_key="ours\n")
    with pytest.raises(subprocess.CalledProcessError):
        git(repo, "merge", "other")
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert names(lodging.cwd) == ["known.key"]
    assert "theirs" in (lodging.cwd / "known.key").read_text()
    assert snapshot.notes == ("not sent: new files that may hold secrets: gone.key",)


@pytest.mark.parametrize(
    "name",
    [
        *(".env", "deep/.ENV.prod", "prod.env", ".env~", ".env.bak", "#.env#", ".env-prod", ".dev.vars"),
        *("credentials.json", "credentials", ".secrets", "secrets.yaml", "passwords.txt", "token.json"),
        *("client_secret.json", "client_secret_123.apps.example.com.json", "service-account-prod.json"),
        *(".docker/config.json", ".m2/settings.xml", ".vault-token", ".vault_pass.txt", ".htpasswd"),
        *(
            "keystore.jks",
            "debug.keystore",
            "key.properties",
            "cert.p12",
            "cert.pfx",
            "AuthKey_1.p8",
            "a.ppk",
        ),
        *(
            "id_ecdsa.bak",
            "id_rsa_work",
            "id_ed25519_sk",
            ".id_rsa.swp",
            "ssh_host_rsa_key",
            "server.key.old",
        ),
        *(
            "kubeconfig",
            "kubeconfig.yaml",
            "prod.kubeconfig",
            "terraform.tfstate",
            "terraform.tfstate.backup",
        ),
        *("prod.tfvars", "x.auto.tfvars.json", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc"),
        *(
            ".git-credentials",
            ".my.cnf",
            ".s3cfg",
            ".psql_history",
            ".password-store/mail.gpg",
            ".aws/config",
        ),
    ],
)
def test_what_is_called_like_a_key_stays(name: str) -> None:
    assert is_secret_file(name.encode())


@pytest.mark.parametrize(
    "name",
    [
        *(
            "secrets.py",
            "credentials.py",
            "src/secret.rs",
            "token.go",
            "tokens.json",
            "env.py",
            "environment",
        ),
        *(
            ".env.example",
            "example.env",
            "sample.tfvars",
            "client_secret.example.json",
            "id_rsa.pub",
            "main.tf",
        ),
        *("config.json", "docker/config.json", "settings.xml", "auth.py", "password_test.go", "keystore.py"),
        *(
            "kubeconfig.go",
            "id_rsa_test.py",
            "history.py",
            "a.py~",
            "notes.bak",
            "~",
            "#",
            "passwd.c",
            "",
            "/",
        ),
        *("secrets/__init__.py", "package.json", "secret_store.json.py", ".gitignore", "service_account.py"),
    ],
)
def test_what_is_called_like_code_travels(name: str) -> None:
    assert not is_secret_file(name.encode())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (pem(), True),
        (pem("PRIVATE KEY"), True),
        (pem("OPENSSH PRIVATE KEY").replace("\n", "\r\n"), True),
        (f"KEY = '''\n{pem('EC PRIVATE KEY')}'''\n", True),
        (f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES,00\n\n{LINE}\n", True),
        (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{LINE}\n", True),
        (f'{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{LINE}\\n"}}', True),
        (f"AGE-SECRET-KEY-1{'Q' * 58}\n", True),
        (pem("PUBLIC KEY"), False),
        (pem("CERTIFICATE"), False),
        ('if "-----BEGIN PRIVATE KEY-----" in text:\n    raise TooSecretToBeTold\n', False),
        ("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n", False),
    ],
)
def test_a_private_key_is_found_in_any_text(text: str, found: bool) -> None:
    assert has_private_key(text.encode()) is found
    assert has_private_key(text.encode("utf-16")) is found


@pytest.mark.parametrize(
    ("begins", "found"),
    [
        ("3082025d02010002818100a040cf364a", True),
        ("308202770201003 00d06092a864886f7", True),
        ("302e020100300506032b657004220420", True),
        ("307702010104 20e4d59f009aaec79659", True),
        ("30819f300d06092a864886f70d010101", False),
        ("308201f43082015da0030201020214 4a", False),
    ],
    ids=["RSA", "PKCS #8", "Ed25519", "elliptic curve", "public key", "certificate"],
)
def test_a_private_key_is_found_that_is_no_text(begins: str, found: bool) -> None:
    assert has_private_key(bytes.fromhex(begins.replace(" ", "")) + b"\x17" * 600) is found
