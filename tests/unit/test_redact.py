from __future__ import annotations

import pytest

from busbw.redact import REDACTED, redact, redact_all, redact_text, redact_word, redact_words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BUSBW_TOKEN", "abc"),
        ("SLURM_JWT", "x"),
        ("NCCL_API_KEY", "x"),
        ("OMPI_MCA_sec_basic_key", "x"),
        ("UCX_AUTHTOKEN", "x"),
        ("SLURM_MYPASSWORD_FILE", "x"),
        ("PBS_AUTH", "x"),
        ("FI_CREDENTIALS", "x"),
        ("NCCL_PROXY", "http://user:hunter2@proxy:3128"),
        ("NCCL_HEADER", "Authorization: Bearer abcdefgh12345678"),
        ("OMPI_EXTRA", "--password=hunter2"),
        ("SLURM_COMMENT", "ghp_0123456789abcdefghij"),
        ("SLURM_COMMENT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig"),
        ("SLURM_COMMENT", "AKIAIOSFODNN7EXAMPLE"),
        ("SSHPASS", "hunter22"),
        ("MY_PWD", "x"),
        ("GH_PAT", "x"),
        ("AZURE_STORAGE", "DefaultEndpointsProtocol=https;AccountKey=abc=="),
        ("EXTRA", "MY_TOKEN=abcdefgh"),
        ("ARGS", "--password hunter22"),
        ("ARGS", "-password hunter22"),
        ("ARGS", "password -> hunter22"),
        ("WPA_PSK", "x"),
        ("CI_PSW", "x"),
        ("DB_PSWD", "x"),
        ("DB_PWORD", "x"),
        ("BEARER", "x"),
        ("SESSION_ID", "x"),
        ("REFRESH_TOKENS", "x"),
        ("LDAP_BINDPW", "x"),
        ("DEPLOY_SSHKEY", "x"),
        ("TOTP", "x"),
        ("HMAC", "x"),
    ],
)
def test_secrets_are_replaced(name: str, value: str) -> None:
    assert redact(name, value) == REDACTED


@pytest.mark.parametrize("name", ["UCX_IB_BYPASS", "MY_BYPASS", "MY_PATH", "PATTERN", "MAX_TOKENS"])
def test_no_secrets(name: str) -> None:
    assert redact(name, "a token ring") == "a token ring"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("A=1", "A=1"),
        ("MY_TOKEN=a b,c", f"MY_TOKEN={REDACTED}"),
        ("--env=HF_TOKEN=x", f"--env=HF_TOKEN={REDACTED}"),
        ("--export=ALL,HF_TOKEN=x,B=2", f"--export=ALL,HF_TOKEN={REDACTED},B=2"),
        ("-x A=1 -x HF_TOKEN=x", f"-x A=1 -x HF_TOKEN={REDACTED}"),
        ("-x HF_TOKEN='a b' -n 2", f"-x HF_TOKEN={REDACTED} -n 2"),
        ("-genv HF_TOKEN x -genv A 1", f"-genv HF_TOKEN {REDACTED} -genv A 1"),
        ("--hf-token=x", f"--hf-token={REDACTED}"),
        ("-pw=x", f"-pw={REDACTED}"),
        ("--minbytes=8", "--minbytes=8"),
        ("/a/b=c", "/a/b=c"),
    ],
)
def test_a_command_line_is_kept_without_secrets(text: str, kept: str) -> None:
    assert redact_word(text) == kept
    assert redact_all({"launch": {"env": [text], "nodes": 2}}) == {"launch": {"env": [kept], "nodes": 2}}


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "CANARY 1"}',
        "Server=h;Pwd=CANARY;User Id=me",
        "passphrase: CANARY is long",
        "https://CANARY@host/x",
        "me:CANARY@host",
        "https://x/y?sp=r&sig=CANARY",
        "https://x/y?X-Amz-Signature=CANARY&z=1",
        "curl -H 'Authorization: Bearer CANARY'",
        "- name: HF_TOKEN\n  value: CANARY",
        "- value: CANARY\n  name: HF_TOKEN",
        "machine h login me password CANARY",
        "curl -u me:CANARY https://x",
        "curl -u 'me:CANARY' https://x",
        "curl --user=me:CANARY https://x",
        "-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----",
        "password: |\n  CANARY is\n  CANARY",
        "password: >-\n  CANARY",
        "token:\n  - CANARY\n  - CANARY\nnext: 1",
        '{"key": "password", "value": "CANARY"}',
        '<add key="Password" value="CANARY" />',
        "<password>CANARY</password>",
        "https://x/?u=https%3A%2F%2Fy%3Fpassword%3DCANARY",
        "the password is CANARY123",
        "ENV MY_PASSWORD CANARY123",
        "('password', 'CANARY123')",
        "sshpass -p 'CANARY123' ssh host",
        "wrote CANARYjY2x1c3RlcnM6Ci0gY2x1c3RlcjoKICAg/IGNlcnRpZmljYXRl+W== to it",
        "https://hooks.slack.com/services/T000/B000/CANARY",
        "https://discord.com/api/webhooks/123456/CANARY",
        "docker login -u '$oauthtoken' -p CANARY nvcr.io",
        "helm registry login host -u me -p=CANARY",
        "sshpass -pCANARY ssh host",
        "az acr login -n registry -p CANARY",
        "curl --proxy-user me:CANARY https://host",
        "ipmitool -H host -U root -P CANARY power status",
        "wandb login --relogin CANARY0123456789abcdef0123456789abcdef",
        "aws configure set aws_secret_access_key CANARYtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "keys: CANARYtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY9 found",
        "http://me:CAN@CANARY@proxy:3128",
        "machine api.wandb.ai password CANARY",
        "curl -b sid=CANARY https://host",
        "JSESSIONID=CANARY",
        "xapp-1-CANARY0123456789",
        "gldt-CANARYabcdefghijklmn",
        "api_org_CANARYabcdefghijklmn",
    ],
)
def test_secrets_within_a_text_are_replaced_once(text: str) -> None:
    kept = redact_text(text)
    assert "CANARY" not in kept
    assert redact_text(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_DEBUG=INFO",
        "SSH_AUTH_SOCK=/tmp/agent.1",
        "PWD=/home/me",
        "key: nvidia.com/gpu",
        "topologyKey: kubernetes.io/hostname",
        "secretName: registry",
        "automountServiceAccountToken: false",
        "image: registry:5000/nccl:12@sha256:0a",
        "ssh://git@host/x",
        "export HF_TOKEN=$HF_TOKEN",
        "LD_LIBRARY_PATH=/a:/b",
        "docker run -u 1000:1000 --user=0:0 image",
        "me@login:~$ srun -p debug all_reduce_perf -b 8",
        "podman run -p 8080:80 image",
        "XDG_SESSION_ID=4",
        "/opt/Nvidia/Lib64/python3/SitePackages12",
        "no password given, no token found: a token ring of 8 ranks",
        "imagePullSecrets:\n  - name: registry",
        "image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "GPU-5f9c1b2e-0d3a-4c11-9a55-1d2e3f405162 of i-0123456789abcdef0",
        "libucs.so(_ZN4nccl12AllReduceSum8f32RingLL128Ev+0x12) called InitializeInjectionNvtx2",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "docker login -u me -p CANARYa r",
        "curl -u me:CANARY https://host",
        "sshpass -p CANARY ssh host",
        "mysql -pCANARY -u me",
        "aws configure set aws_secret_access_key CANARYa7x",
        "plink -pw CANARY host",
        "curl -H Authorization: Bearer CANARYa7x https://host",
    ],
)
def test_a_secret_that_only_the_whole_command_line_shows_is_replaced(line: str) -> None:
    words = line.split()
    kept = redact_words(words)
    assert "CANARY" not in " ".join(kept)
    assert all(one in (word, REDACTED) for one, word in zip(kept, words, strict=True))
    assert kept[0] == words[0]


def test_words_behind_a_secret_stay() -> None:
    script = 'export A="b c" && ./train'
    words = ("sshpass", "-p", "two words", "ssh", "h", "bash", "-c", script, "", "--max-tokens", "4096")
    assert redact_words(words) == ("sshpass", "-p", REDACTED, *words[3:])
    assert redact_words(()) == ()


def test_what_is_below_the_name_of_a_secret_is_one_unless_it_is_about_it() -> None:
    below = {"secrets": {"a": "x", "name": "registry"}, "plain": {"a": "x"}}
    assert redact_all(below) == {"secrets": {"a": REDACTED, "name": "registry"}, "plain": {"a": "x"}}
