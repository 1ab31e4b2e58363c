package lock

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/redfence/redfence/internal/failpoint"
)

// tokenSize is the length of a token in a lock's value. A token is 128 random
// bits drawn for one try and gone with it: whatever is still on its way for an
// earlier try can never touch a later one.
const tokenSize = 32

func newToken() string {
	if failpoint.Mutant("lock-token-is-instance") {
		return fmt.Sprintf("%0*d", tokenSize, os.Getpid())
	}
	var raw [tokenSize / 2]byte
	_, _ = rand.Read(raw[:]) // never fails: it ends the process instead
	var text [tokenSize]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// valueOf is what a lock holds in Redis: the token, then what people may want
// to know: the owner and, from the first renewal on, the fence.
func valueOf(token, owner string, fence int64) string {
	if fence == 0 {
		return token + " " + owner
	}
	return fmt.Sprintf("%s %s %d", token, owner, fence)
}

// parseValue undoes valueOf. A value that is none has no token.
func parseValue(value string) (token, owner string, fence int64) {
	if len(value) <= tokenSize || value[tokenSize] != ' ' {
		return "", value, 0
	}
	token, rest := value[:tokenSize], value[tokenSize+1:]
	owner, number, found := strings.Cut(rest, " ")
	if found {
		if _, err := fmt.Sscan(number, &fence); err != nil {
			return token, rest, 0
		}
	}
	return token, owner, fence
}

func ownerOf(value string) string {
	_, owner, _ := parseValue(value)
	return owner
}

// processName is the default owner.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
