package redfence

import (
	"bytes"
	"crypto/hmac"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/failpoint"
)

// compareCalls compares the fingerprints of two calls in one process (R2).
// Calls can be told apart, or joined, only if both or neither have one.
func compareCalls(a, b Fingerprint) match {
	if failpoint.Mutant("fingerprint-ignored") {
		return same
	}
	if len(a.Sum) == 0 || len(b.Sum) == 0 {
		if len(a.Sum) == len(b.Sum) {
			return same
		}
		return cannotTell
	}
	sum, ok := b.under(a.Version)
	switch {
	case !ok:
		return cannotTell
	case bytes.Equal(a.Sum, sum):
		return same
	}
	return differs
}

// under returns the digest of the request under the given algorithm.
func (f Fingerprint) under(version uint8) ([]byte, bool) {
	switch {
	case f.Version == version:
		return f.Sum, true
	case f.Other == nil:
		return nil, false
	}
	return f.Other(version)
}

// A match is the result of comparing a request with a record.
type match uint8

const (
	same match = iota
	differs
	cannotTell // the record's algorithm or secret is not known here: in doubt
)

// compare compares the request with a record, under the record's algorithm and
// secret (R2).
func (e *Engine) compare(f Fingerprint, record fallback.Fingerprint) match {
	if len(f.Sum) == 0 || len(record.Sum) == 0 || failpoint.Mutant("fingerprint-ignored") {
		return same
	}
	sum, ok := f.under(record.Version)
	if !ok {
		return cannotTell
	}
	sum, ok = e.keyed(sum, record.Secret)
	switch {
	case !ok:
		return cannotTell
	case hmac.Equal(sum, record.Sum):
		return same
	}
	return differs
}

// fingerprint is what the row of a new claim carries.
func (e *Engine) fingerprint(f Fingerprint) fallback.Fingerprint {
	if len(f.Sum) == 0 {
		return fallback.Fingerprint{}
	}
	id := e.ring.Current()
	sum, _ := e.keyed(f.Sum, id)
	return fallback.Fingerprint{Version: f.Version, Secret: id, Sum: sum}
}

// keyed returns a digest as it is stored under a secret; id 0 is no secret.
func (e *Engine) keyed(sum []byte, id uint8) ([]byte, bool) {
	if id == 0 {
		return sum, true
	}
	keyed, err := e.ring.Fingerprint(nil, id, sum)
	return keyed, err == nil
}
