package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func request(remote string, headers ...string) *http.Request {
	r := httptest.NewRequest("POST", "/", nil)
	r.RemoteAddr = remote
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func file(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestScopeFromATrustedProxy(t *testing.T) {
	identify, err := Scope{Header: "X-Tenant", Trusted: []string{"10.0.0.0/8", "::1/128"}}.identify()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		r    *http.Request
		want string // empty: refused
	}{
		{request("10.1.2.3:4", "X-Tenant: acme"), "acme"},
		{request("[::1]:4", "X-Tenant: acme"), "acme"},
		{request("[::ffff:10.1.2.3]:4", "X-Tenant: acme"), "acme"},
		{request("11.1.2.3:4", "X-Tenant: acme"), ""},
		{request("10.1.2.3:4"), ""},
		{request("10.1.2.3:4", "X-Tenant: "), ""},
		{request("10.1.2.3:4", "X-Tenant: acme", "X-Tenant: evil"), ""},
		{request("nonsense", "X-Tenant: acme"), ""},
	} {
		if got, err := identify(tc.r); got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s %v: %q, %v", tc.r.RemoteAddr, tc.r.Header, got, err)
		}
	}
}

func TestScopeFromAToken(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	j := JWT{Claim: "tenant", KeyFile: file(t, public), Algorithms: []string{"ES256"}, Issuer: "https://id", Audience: "pay"}
	identify, err := Scope{JWT: j}.identify()
	if err != nil {
		t.Fatal(err)
	}
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	claims := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{"tenant": "acme", "iss": "https://id", "aud": "pay", "exp": time.Now().Add(time.Hour).Unix()}
		change(c)
		return c
	}
	sign := func(method jwt.SigningMethod, key any, change func(jwt.MapClaims)) string {
		text, err := jwt.NewWithClaims(method, claims(change)).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return "Authorization: Bearer " + text
	}
	same := func(jwt.MapClaims) {}
	good := sign(jwt.SigningMethodES256, key, same)
	if got, err := identify(request("1.2.3.4:5", good)); got != "acme" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	for name, header := range map[string]string{
		"another key":       sign(jwt.SigningMethodES256, other, same),
		"public as HMAC":    sign(jwt.SigningMethodHS256, public, same),
		"unsigned":          sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, same),
		"expired":           sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Hour).Unix() }),
		"no expiry":         sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { delete(c, "exp") }),
		"not yet":           sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Hour).Unix() }),
		"another issuer":    sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["iss"] = "https://evil" }),
		"another audience":  sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["aud"] = "other" }),
		"no claim":          sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { delete(c, "tenant") }),
		"claim is no text":  sign(jwt.SigningMethodES256, key, func(c jwt.MapClaims) { c["tenant"] = 7 }),
		"flipped bit":       good[:len(good)-10] + "A" + good[len(good)-9:],
		"another scheme":    strings.Replace(good, "Bearer", "Basic", 1),
		"nothing to verify": "Authorization: Bearer ",
	} {
		if name == "flipped bit" && header == good {
			continue
		}
		if got, err := identify(request("1.2.3.4:5", header)); err == nil {
			t.Errorf("%s: accepted as %q", name, got)
		}
	}
	if _, err := identify(request("1.2.3.4:5", good, good)); err == nil {
		t.Error("two tokens were accepted")
	}
}

func TestScopeFromBasicAuth(t *testing.T) {
	h := passwordHash{iterations: 10, salt: []byte("salt")}
	h.sum, _ = h.of("open sesame")
	users := "# users\n\nali:pbkdf2-sha256:10:c2FsdA:" + encode(h.sum) + "\n"
	identify, err := Scope{Basic: Basic{UsersFile: file(t, []byte(users))}}.identify()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(user, password string) (string, error) {
		r := request("1.2.3.4:5")
		r.SetBasicAuth(user, password)
		return identify(r)
	}
	for range 2 { // the second time from memory
		if got, err := ask("ali", "open sesame"); got != "ali" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		for _, bad := range [][2]string{{"ali", "open"}, {"ali", ""}, {"baba", "open sesame"}, {"", ""}} {
			if got, err := ask(bad[0], bad[1]); err == nil {
				t.Errorf("%q was accepted as %q", bad, got)
			}
		}
	}
	if _, err := identify(request("1.2.3.4:5")); err == nil {
		t.Error("accepted without credentials")
	}
}

func TestHashPassword(t *testing.T) {
	text, err := hashPassword("open sesame", 10)
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	if sum, _ := h.of("open sesame"); encode(sum) != encode(h.sum) {
		t.Error("the password does not verify")
	}
}

func TestScopeProblems(t *testing.T) {
	short := file(t, []byte("short"))
	for want, s := range map[string]Scope{
		"none":                  {},
		"give one":              {Unscoped: true, Header: "X"},
		"trusted: none":         {Header: "X"},
		"no name of a header":   {Header: "X Tenant", Trusted: []string{"10.0.0.0/8"}},
		"no network":            {Header: "X", Trusted: []string{"10.0.0.1"}},
		"give claim":            {JWT: JWT{Claim: "sub"}},
		"key_file":              {JWT: JWT{Claim: "sub", KeyFile: "/nowhere", Algorithms: []string{"ES256"}}},
		"at least 32":           {JWT: JWT{Claim: "sub", KeyFile: short, Algorithms: []string{"HS256"}}},
		"no public key":         {JWT: JWT{Claim: "sub", KeyFile: short, Algorithms: []string{"RS256"}}},
		"one family":            {JWT: JWT{Claim: "sub", KeyFile: short, Algorithms: []string{"RS256", "HS256"}}},
		`unknown "none"`:        {JWT: JWT{Claim: "sub", KeyFile: short, Algorithms: []string{"none"}}},
		"users_file":            {Basic: Basic{UsersFile: "/nowhere"}},
		"line 1: no hash such":  {Basic: Basic{UsersFile: short}},
		"users_file: no users":  {Basic: Basic{UsersFile: file(t, nil)}},
		"line 1: bad number":    {Basic: Basic{UsersFile: file(t, []byte("a:pbkdf2-sha256:0:YQ:YQ"))}},
		"line 1: bad hash":      {Basic: Basic{UsersFile: file(t, []byte("a:pbkdf2-sha256:1:YQ:YQ"))}},
		"line 1: bad salt":      {Basic: Basic{UsersFile: file(t, []byte("a:pbkdf2-sha256:1:%:YQ"))}},
		"unknown \"ES257\"":     {JWT: JWT{Claim: "sub", KeyFile: short, Algorithms: []string{"ES257"}}},
		"give claim, key_file ": {JWT: JWT{KeyFile: short}},
	} {
		if _, err := s.identify(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
