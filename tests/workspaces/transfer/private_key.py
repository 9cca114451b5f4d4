"""A private key in a file."""

LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


def pem(kind: str = "RSA PRIVATE KEY") -> str:
    return f"-----BEGIN {kind}-----\n{LINE}\n-----END {kind}-----\n"
