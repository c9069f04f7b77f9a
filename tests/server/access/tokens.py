"""An authorization server's keys and tokens, for tests."""

import json
import time
import warnings
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from postroom.server.configuration.oauth import OAuthConfig

ISSUER = "https://login.example"
AUDIENCE = "postroom"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SMALL_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = Ed25519PrivateKey.generate()


def jwks() -> list[dict[str, Any]]:
    """The public keys, each with an id."""
    made = {
        "rsa": RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True),
        "small": RSAAlgorithm.to_jwk(SMALL_RSA_KEY.public_key(), as_dict=True),
        "ec": ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True),
        "ed": OKPAlgorithm.to_jwk(ED_KEY.public_key(), as_dict=True),
    }
    return [{**data, "kid": key_id} for key_id, data in made.items()]


def write_jwks(file: Path, keys: list[dict[str, Any]] | None = None) -> Path:
    file.write_text(json.dumps({"keys": jwks() if keys is None else keys}))
    return file


def oauth_config(source: object, **changes: Any) -> OAuthConfig:
    settings: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "roles_claim": "roles", **changes}
    return OAuthConfig(jwks=str(source), **settings)


def token(
    user: str = "ann",
    key: Any = RSA_KEY,
    algorithm: str = "RS256",
    headers: dict[str, Any] | None = None,
    without: str = "",
    **claims: Any,
) -> str:
    """A token for an hour; ``without`` a claim."""
    now_s = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now_s, "exp": now_s + 3600, **claims}
    made.pop(without, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of the keys is too short on purpose
        return jwt.encode(made, key, algorithm, headers={"kid": "rsa"} if headers is None else headers)
