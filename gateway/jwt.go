package gateway

import (
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// JWT takes the scope from a claim of a bearer token (RFC 7519), after its
// signature, expiry and, where given, issuer and audience have been verified.
type JWT struct {
	// Claim holds the scope, such as sub. Required.
	Claim string `yaml:"claim"`
	// KeyFile holds the key that verifies signatures: a public key in PEM for
	// RS, PS, ES and EdDSA; a secret of at least 32 bytes for HS. Required.
	KeyFile string `yaml:"key_file"`
	// Algorithms are accepted, such as ES256; all of one family. Required.
	Algorithms []string `yaml:"algorithms"`
	// Issuer and Audience must be in the token when given.
	Issuer   string `yaml:"issuer"`
	Audience string `yaml:"audience"`
}

// clockSkew is how far the clocks of issuer and gateway may be apart.
const clockSkew = 30 * time.Second

const minHMACKey = 32

var errBadToken = errors.New("no valid bearer token with the scope's claim")

func (j JWT) given() bool {
	return j.Claim != "" || j.KeyFile != "" || len(j.Algorithms) > 0 || j.Issuer != "" || j.Audience != ""
}

func (j JWT) identify() (identifier, error) {
	if j.Claim == "" || j.KeyFile == "" || len(j.Algorithms) == 0 {
		return nil, errors.New("jwt: give claim, key_file and algorithms")
	}
	key, err := j.key()
	if err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(j.Algorithms), jwt.WithExpirationRequired(), jwt.WithLeeway(clockSkew)}
	if j.Issuer != "" {
		options = append(options, jwt.WithIssuer(j.Issuer))
	}
	if j.Audience != "" {
		options = append(options, jwt.WithAudience(j.Audience))
	}
	parser := jwt.NewParser(options...)
	return func(r *http.Request) (string, error) {
		text, ok := bearer(r)
		if !ok {
			return "", errBadToken
		}
		claims := jwt.MapClaims{}
		if _, err := parser.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
			return "", errBadToken
		}
		scope, _ := claims[j.Claim].(string)
		if scope == "" {
			return "", errBadToken
		}
		return scope, nil
	}, nil
}

func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// key reads the key. All algorithms must be of the family that it is for: a
// public key taken for an HMAC secret would verify what anybody can sign.
func (j JWT) key() (crypto.PublicKey, error) {
	text, err := os.ReadFile(j.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	family := ""
	for _, algorithm := range j.Algorithms {
		f, known := families[algorithm]
		if !known {
			return nil, fmt.Errorf("algorithms: unknown %q", algorithm)
		}
		if family != "" && f != family {
			return nil, errors.New("algorithms: all must be of one family")
		}
		family = f
	}
	var key crypto.PublicKey
	switch family {
	case "HS":
		if len(text) < minHMACKey {
			return nil, fmt.Errorf("key_file: %d bytes; at least %d", len(text), minHMACKey)
		}
		return text, nil
	case "RSA":
		key, err = jwt.ParseRSAPublicKeyFromPEM(text)
	case "ES":
		key, err = jwt.ParseECPublicKeyFromPEM(text)
	default:
		key, err = jwt.ParseEdPublicKeyFromPEM(text)
	}
	if err != nil {
		return nil, fmt.Errorf("key_file: no public key for %s", strings.Join(j.Algorithms, ", "))
	}
	return key, nil
}

var families = map[string]string{
	"HS256": "HS", "HS384": "HS", "HS512": "HS",
	"RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
	"ES256": "ES", "ES384": "ES", "ES512": "ES", "EdDSA": "EdDSA",
}
