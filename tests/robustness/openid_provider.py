"""A small OpenID Connect provider on loopback: the authorization code flow, with whoever the form names as the user.

`python -m tests.robustness.openid_provider PORT`
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
import time
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "dashboard", "the secret of the client"
KEY = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})

codes: dict[str, dict[str, str]] = {}
"""Code -> the request that it was given for, and the user."""


class Provider(BaseHTTPRequestHandler):
    issuer = ""

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        request = {name: values[0] for name, values in query.items()}
        if path == "/.well-known/openid-configuration":
            self.say_json(
                {
                    "issuer": self.issuer,
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}/token",
                    "jwks_uri": f"{self.issuer}/keys",
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                    "code_challenge_methods_supported": ["S256"],
                }
            )
        elif path == "/keys":
            self.say_json({"keys": [KEY.as_dict(private=False)]})
        elif path == "/authorize" and "user" in request:
            code = secrets.token_urlsafe()
            codes[code] = request
            back = urlencode({"code": code, "state": request["state"]})
            self.send_response(302)
            self.send_header("Location", f"{request['redirect_uri']}?{back}")
            self.end_headers()
        elif path == "/authorize":
            hidden = "".join(f'<input type="hidden" name="{k}" value="{escape(v)}">' for k, v in request.items())
            form = f'<form><label>User <input name="user"></label>{hidden}<button>Sign in</button></form>'
            self.say(f"<!doctype html><title>Provider</title>{form}".encode(), "text/html")
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        sent = {k: v[0] for k, v in parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()).items()}
        known = base64.b64encode(f"{CLIENT}:{SECRET}".replace(" ", "+").encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        request = codes.pop(sent.get("code", ""), None)
        if self.headers.get("Authorization") not in (f"Basic {known}", f"Basic {plain}") or request is None:
            self.send_error(401)
            return
        verifier = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        if request.get("code_challenge") != base64.urlsafe_b64encode(verifier).rstrip(b"=").decode():
            self.send_error(400)
            return
        now, user = int(time.time()), request["user"]
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": f"id of {user}", "email": f"{user}@lab.example"}
        claims |= {"iat": now, "exp": now + 600, "nonce": request["nonce"], "email_verified": True}  # type: ignore[dict-item]
        token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, KEY)
        self.say_json({"access_token": secrets.token_urlsafe(), "token_type": "Bearer", "id_token": token})

    def say_json(self, content: Any) -> None:
        self.say(json.dumps(content).encode(), "application/json")

    def say(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    port = int(sys.argv[1])
    Provider.issuer = f"http://127.0.0.1:{port}"
    ThreadingHTTPServer(("127.0.0.1", port), Provider).serve_forever()
