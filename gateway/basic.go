package gateway

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Basic takes the scope from the user of basic auth (RFC 7617), after the
// password has been verified.
type Basic struct {
	// UsersFile has a line per user: name:hash, the hash as HashPassword
	// returns it. Empty lines and lines that begin with # count for nothing.
	UsersFile string `yaml:"users_file"`
}

const (
	hashName       = "pbkdf2-sha256"
	hashIterations = 600_000
	maxIterations  = 10_000_000
	// rememberedLogins bounds the verified passwords that are remembered by
	// their digest: the hash takes a tenth of a second on purpose.
	rememberedLogins = 10_000
)

var errBadLogin = errors.New("unknown user or wrong password")

func (b Basic) given() bool { return b.UsersFile != "" }

// HashPassword returns the hash of a password for a users file:
// pbkdf2-sha256:iterations:salt:hash (RFC 8018).
func HashPassword(password string) (string, error) { return hashPassword(password, hashIterations) }

func hashPassword(password string, iterations int) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails: crypto/rand crashes the program instead
	h := passwordHash{iterations: iterations, salt: salt}
	sum, err := h.of(password)
	if err != nil {
		return "", err
	}
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("%s:%d:%s:%s", hashName, iterations, encode(salt), encode(sum)), nil
}

type passwordHash struct {
	iterations int
	salt, sum  []byte
}

func (h passwordHash) of(password string) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, h.salt, h.iterations, sha256.Size)
}

func parseHash(text string) (h passwordHash, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 4 || parts[0] != hashName {
		return h, errors.New("no hash such as " + hashName + ":iterations:salt:hash")
	}
	h.iterations, err = strconv.Atoi(parts[1])
	if err != nil || h.iterations < 1 || h.iterations > maxIterations {
		return h, errors.New("bad number of iterations")
	}
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[2]); err != nil {
		return h, errors.New("bad salt")
	}
	if h.sum, err = base64.RawStdEncoding.DecodeString(parts[3]); err != nil || len(h.sum) != sha256.Size {
		return h, errors.New("bad hash")
	}
	return h, nil
}

func (b Basic) identify() (identifier, error) {
	text, err := os.ReadFile(b.UsersFile)
	if err != nil {
		return nil, fmt.Errorf("basic: users_file: %w", err)
	}
	l := &logins{users: map[string]passwordHash{}, known: map[[sha256.Size]byte]struct{}{}}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		if l.users[name], err = parseHash(hash); err != nil {
			return nil, fmt.Errorf("basic: users_file: line %d: %w", n, err)
		}
	}
	if len(l.users) == 0 {
		return nil, errors.New("basic: users_file: no users")
	}
	return l.identify, nil
}

// logins are the users and the passwords that were verified before.
type logins struct {
	users map[string]passwordHash
	mu    sync.Mutex // guards known
	known map[[sha256.Size]byte]struct{}
}

func (l *logins) identify(r *http.Request) (string, error) {
	name, password, ok := r.BasicAuth()
	hash, exists := l.users[name]
	if !ok || !exists {
		return "", errBadLogin
	}
	seen := sha256.Sum256([]byte(strconv.Itoa(len(name)) + ":" + name + password))
	if l.remembers(seen) {
		return name, nil
	}
	sum, err := hash.of(password)
	if err != nil || subtle.ConstantTimeCompare(sum, hash.sum) != 1 {
		return "", errBadLogin
	}
	l.remember(seen)
	return name, nil
}

func (l *logins) remembers(seen [sha256.Size]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.known[seen]
	return ok
}

func (l *logins) remember(seen [sha256.Size]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= rememberedLogins {
		clear(l.known)
	}
	l.known[seen] = struct{}{}
}
