"""A hundred commands as developers type them, and the exact words of their parts."""

import pytest

from gencode.permissions.bash.parser import parse

# Each part is its words; a write part has `>` before its target, an inert part `#` before its words.
ORDINARY: list[tuple[str, list[list[str]]]] = [
    ("git status", [["git", "status"]]),
    ("git diff --stat HEAD~1", [["git", "diff", "--stat", "HEAD~1"]]),
    ("git log --oneline -10 --graph", [["git", "log", "--oneline", "-10", "--graph"]]),
    (
        'git add -A && git commit -m "Fix the parser"',
        [["git", "add", "-A"], ["git", "commit", "-m", "Fix the parser"]],
    ),
    ("git commit -m 'It'\"'\"'s done'", [["git", "commit", "-m", "It's done"]]),
    ("git push -u origin feature/x", [["git", "push", "-u", "origin", "feature/x"]]),
    ("git checkout -b fix-123", [["git", "checkout", "-b", "fix-123"]]),
    ("git stash list", [["git", "stash", "list"]]),
    ("git show HEAD:src/main.py", [["git", "show", "HEAD:src/main.py"]]),
    ("git rebase -i HEAD~3", [["git", "rebase", "-i", "HEAD~3"]]),
    ("git diff HEAD^..HEAD -- '*.py'", [["git", "diff", "HEAD^..HEAD", "--", "*.py"]]),
    ('git log --since="2 weeks ago" --author=me', [["git", "log", "--since=2 weeks ago", "--author=me"]]),
    ("git log --format='%h %s' | head -5", [["git", "log", "--format=%h %s"], ["head", "-5"]]),
    (
        "git branch -D $(git branch --merged | grep feature)",
        [
            ["git", "branch", "--merged"],
            ["grep", "feature"],
            ["git", "branch", "-D", "$(git branch --merged | grep feature)"],
        ],
    ),
    ("git reset --hard stash@{0}", [["git", "reset", "--hard", "stash@{0}"]]),
    ("git diff main...HEAD", [["git", "diff", "main...HEAD"]]),
    ('git config user.name "A B"', [["git", "config", "user.name", "A B"]]),
    ("ls -la", [["ls", "-la"]]),
    ("ls -la src/*.py", [["ls", "-la", "src/*.py"]]),
    ("ls src tests docs 2>/dev/null", [["ls", "src", "tests", "docs"]]),
    ("cat README.md | head -50", [["cat", "README.md"], ["head", "-50"]]),
    ("cat package.json | jq '.scripts'", [["cat", "package.json"], ["jq", ".scripts"]]),
    ("cat src/a.py src/b.py > /tmp/all.py", [[">", "/tmp/all.py"], ["cat", "src/a.py", "src/b.py"]]),
    (
        "head -n 20 file.txt; tail -n 20 file.txt",
        [["head", "-n", "20", "file.txt"], ["tail", "-n", "20", "file.txt"]],
    ),
    (
        "find . -name '*.py' -not -path './node_modules/*'",
        [["find", ".", "-name", "*.py", "-not", "-path", "./node_modules/*"]],
    ),
    (
        'find . -type f -name "*.ts" | xargs grep -l "foo"',
        [["find", ".", "-type", "f", "-name", "*.ts"], ["xargs", "grep", "-l", "foo"]],
    ),
    ("find . -name '*.pyc' -delete", [["find", ".", "-name", "*.pyc", "-delete"]]),
    (
        "find src -name '*.go' -exec gofmt -l {} \\;",
        [["find", "src", "-name", "*.go", "-exec", "gofmt", "-l", "{}", ";"]],
    ),
    ("find . -size +1M -exec ls -lh {} +", [["find", ".", "-size", "+1M", "-exec", "ls", "-lh", "{}", "+"]]),
    ('grep -rn "TODO" --include=*.py .', [["grep", "-rn", "TODO", "--include=*.py", "."]]),
    (
        "grep -E '^(a|b)$' file | sort | uniq -c | sort -rn",
        [["grep", "-E", "^(a|b)$", "file"], ["sort"], ["uniq", "-c"], ["sort", "-rn"]],
    ),
    ("rg -n 'def \\w+\\(' src", [["rg", "-n", "def \\w+\\(", "src"]]),
    ("rg --files | wc -l", [["rg", "--files"], ["wc", "-l"]]),
    ("sed -i 's/foo/bar/g' src/a.py", [["sed", "-i", "s/foo/bar/g", "src/a.py"]]),
    ("sed -n '10,20p' file.txt", [["sed", "-n", "10,20p", "file.txt"]]),
    ("awk '{print $1}' data.txt | sort -u", [["awk", "{print $1}", "data.txt"], ["sort", "-u"]]),
    (
        "awk -F: '{ sum += $2 } END { print sum }' /etc/passwd",
        [["awk", "-F:", "{ sum += $2 } END { print sum }", "/etc/passwd"]],
    ),
    ("cd /tmp && ls", [["cd", "/tmp"], ["ls"]]),
    (
        "cd frontend && npm install && npm run build",
        [["cd", "frontend"], ["npm", "install"], ["npm", "run", "build"]],
    ),
    ("(cd backend && make test)", [["cd", "backend"], ["make", "test"]]),
    ("npm test -- --watch=false", [["npm", "test", "--", "--watch=false"]]),
    ("npm run lint 2>&1 | tail -20", [["npm", "run", "lint"], ["tail", "-20"]]),
    ("npx tsc --noEmit", [["npx", "tsc", "--noEmit"]]),
    ("yarn add -D typescript@5.4", [["yarn", "add", "-D", "typescript@5.4"]]),
    ("pnpm -r build", [["pnpm", "-r", "build"]]),
    (
        "python -m pytest -x -q tests/test_a.py::test_b",
        [["python", "-m", "pytest", "-x", "-q", "tests/test_a.py::test_b"]],
    ),
    ('python3 -c "import sys; print(sys.version)"', [["python3", "-c", "import sys; print(sys.version)"]]),
    ('python -c \'print("a" + "b")\'', [["python", "-c", 'print("a" + "b")']]),
    ("PYTHONPATH=src python -m app --port=8080", [["python", "-m", "app", "--port=8080"]]),
    ("pip install -r requirements.txt", [["pip", "install", "-r", "requirements.txt"]]),
    ("pip install 'requests>=2'", [["pip", "install", "requests>=2"]]),
    ('uv run pytest -k "not slow"', [["uv", "run", "pytest", "-k", "not slow"]]),
    ("pytest --cov=src | tee out.txt", [["pytest", "--cov=src"], ["tee", "out.txt"]]),
    ("source .venv/bin/activate && python app.py", [["source", ".venv/bin/activate"], ["python", "app.py"]]),
    ("cargo test --all -- --nocapture", [["cargo", "test", "--all", "--", "--nocapture"]]),
    (
        "cargo build --release 2>&1 | grep -v warning",
        [["cargo", "build", "--release"], ["grep", "-v", "warning"]],
    ),
    ("RUST_BACKTRACE=1 cargo run", [["cargo", "run"]]),
    ("go test ./... -run TestX", [["go", "test", "./...", "-run", "TestX"]]),
    ("go build -o bin/app ./cmd/app", [["go", "build", "-o", "bin/app", "./cmd/app"]]),
    ("make -j$(nproc)", [["nproc"], ["make", "-j$(nproc)"]]),
    ('make test || echo "failed"', [["make", "test"], ["echo", "failed"]]),
    (
        'docker run --rm -it -v "$PWD":/app node:20 npm test',
        [["docker", "run", "--rm", "-it", "-v", "$PWD:/app", "node:20", "npm", "test"]],
    ),
    ("docker compose up -d", [["docker", "compose", "up", "-d"]]),
    ("docker ps --format '{{.Names}}'", [["docker", "ps", "--format", "{{.Names}}"]]),
    (
        "kubectl get pods -n default -o jsonpath='{.items[*].metadata.name}'",
        [["kubectl", "get", "pods", "-n", "default", "-o", "jsonpath={.items[*].metadata.name}"]],
    ),
    (
        "curl -s https://example.com/api | jq -r '.[] | .name'",
        [["curl", "-s", "https://example.com/api"], ["jq", "-r", ".[] | .name"]],
    ),
    (
        "curl -X POST -H 'Content-Type: application/json' -d '{\"a\": 1}' http://localhost:8080/x",
        [
            [
                "curl",
                "-X",
                "POST",
                "-H",
                "Content-Type: application/json",
                "-d",
                '{"a": 1}',
                "http://localhost:8080/x",
            ]
        ],
    ),
    (
        'wget -q -O - "http://example.com/?a=1&b=2"',
        [["wget", "-q", "-O", "-", "http://example.com/?a=1&b=2"]],
    ),
    ("ssh host 'cd /app && git pull'", [["ssh", "host", "cd /app && git pull"]]),
    ("scp a.txt host:/tmp/", [["scp", "a.txt", "host:/tmp/"]]),
    ("tar -xzf a.tar.gz -C /tmp", [["tar", "-xzf", "a.tar.gz", "-C", "/tmp"]]),
    ("zip -r out.zip . -x '*.git*'", [["zip", "-r", "out.zip", ".", "-x", "*.git*"]]),
    ("chmod +x script.sh && ./script.sh", [["chmod", "+x", "script.sh"], ["./script.sh"]]),
    ("mkdir -p a/b/c", [["mkdir", "-p", "a/b/c"]]),
    ("rm -rf node_modules dist", [["rm", "-rf", "node_modules", "dist"]]),
    ("cp -r src/ backup/", [["cp", "-r", "src/", "backup/"]]),
    ("mv old.txt new.txt", [["mv", "old.txt", "new.txt"]]),
    ("touch a.txt b.txt", [["touch", "a.txt", "b.txt"]]),
    ('echo "hello world"', [["echo", "hello world"]]),
    ("echo $HOME $PATH", [["echo", "$HOME", "$PATH"]]),
    ('echo "Exit code: $?"', [["echo", "Exit code: $?"]]),
    ('echo -e "a\\tb\\n"', [["echo", "-e", "a\\tb\\n"]]),
    ("printf '%s\\n' a b c", [["printf", "%s\\n", "a", "b", "c"]]),
    ("export FOO=bar", [["export", "FOO=bar"]]),
    ("env | sort", [["env"], ["sort"]]),
    ("which python3", [["which", "python3"]]),
    ("kill -9 1234", [["kill", "-9", "1234"]]),
    ("ps aux | grep node | awk '{print $2}'", [["ps", "aux"], ["grep", "node"], ["awk", "{print $2}"]]),
    ("sleep 5 && curl localhost:3000", [["sleep", "5"], ["curl", "localhost:3000"]]),
    ("node -e 'console.log(process.version)'", [["node", "-e", "console.log(process.version)"]]),
    ("timeout 30 npm start &", [["timeout", "30", "npm", "start"]]),
    ('for f in *.txt; do echo "$f"; done', [["#", "*.txt"], ["echo", "$f"]]),
    ("for i in 1 2 3; do echo $i; done", [["#", "1", "2", "3"], ["echo", "$i"]]),
    (
        'while read -r line; do echo "$line"; done < in.txt',
        [["read", "-r", "line"], ["echo", "$line"], ["#"]],
    ),
    ("if [ -f package.json ]; then npm ci; fi", [["[", "-f", "package.json", "]"], ["npm", "ci"]]),
    ("[ -d build ] || mkdir build", [["[", "-d", "build", "]"], ["mkdir", "build"]]),
    ("test -f a && cat a", [["test", "-f", "a"], ["cat", "a"]]),
    ('[[ -n "$CI" ]] && echo ci', [["#", "$CI"], ["echo", "ci"]]),
    (
        "diff <(sort a.txt) <(sort b.txt)",
        [["sort", "a.txt"], ["sort", "b.txt"], ["diff", "<(sort a.txt)", "<(sort b.txt)"]],
    ),
    ("time make", [["make"]]),
    ("! grep -q error log.txt", [["grep", "-q", "error", "log.txt"]]),
    ("command -v node >/dev/null 2>&1 || echo missing", [["command", "-v", "node"], ["echo", "missing"]]),
    (
        "java -jar app.jar --spring.profiles.active=dev",
        [["java", "-jar", "app.jar", "--spring.profiles.active=dev"]],
    ),
    (
        "psql -c \"SELECT * FROM users WHERE name = 'a';\"",
        [["psql", "-c", "SELECT * FROM users WHERE name = 'a';"]],
    ),
    ('sqlite3 db.sqlite ".tables"', [["sqlite3", "db.sqlite", ".tables"]]),
    ('ls | while read f; do wc -l "$f"; done', [["ls"], ["read", "f"], ["wc", "-l", "$f"]]),
    ("du -sh * | sort -h", [["du", "-sh", "*"], ["sort", "-h"]]),
    ("true; false", [["true"], ["false"]]),
    ('gh pr create --title "x" --body "y"', [["gh", "pr", "create", "--title", "x", "--body", "y"]]),
    ("terraform plan -out=tfplan", [["terraform", "plan", "-out=tfplan"]]),
]


@pytest.mark.parametrize(("text", "expected"), ORDINARY, ids=[text for text, _ in ORDINARY])
def test_an_ordinary_command_is_read_word_by_word(text: str, expected: list[list[str]]) -> None:
    marks = {"command": [], "write": [">"], "inert": ["#"]}
    found = [[*marks[part.kind], *(word.value for word in part.words)] for part in parse(text)]
    assert found == expected
    assert [part.opaque for part in parse(text) if part.opaque] == []


def test_there_are_a_hundred_of_them() -> None:
    assert len({text for text, _ in ORDINARY}) >= 100
