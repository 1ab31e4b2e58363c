package fallback

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redfence/redfence/internal/problems"
)

// String returns run again or never again.
func (a AfterExpiry) String() string {
	if a == NeverAgain {
		return "never again"
	}
	return "run again"
}

// Validate reports every problem of the policy at once.
func (p Policy) Validate() error {
	var list problems.List
	if p.Takeover > Retry {
		list.Add("takeover %d is neither Hold nor Retry", p.Takeover)
	}
	if p.AfterExpiry > NeverAgain {
		list.Add("after-expiry %d is neither RunAgain nor NeverAgain", p.AfterExpiry)
	}
	if p.Lease < time.Millisecond {
		list.Add("lease %v is shorter than 1ms", p.Lease)
	}
	if p.MaxProcessing < p.Lease {
		list.Add("max processing %v is shorter than the lease %v", p.MaxProcessing, p.Lease)
	}
	if p.Takeover == Retry && p.MaxAttempts < 1 {
		list.Add("max attempts %d under Retry: at least 1 is needed", p.MaxAttempts)
	}
	if p.Retention <= 0 {
		list.Add("retention %v is not positive; use Forever for no end", p.Retention)
	}
	return list.Err()
}

// Equal reports whether two fingerprints were made by one algorithm, under
// one secret, of one request.
func (f Fingerprint) Equal(g Fingerprint) bool {
	return f.Version == g.Version && f.Secret == g.Secret && bytes.Equal(f.Sum, g.Sum)
}

// over returns when a claim made at the given time frees its key for others
// at the earliest: claimed_at + max_processing + Margin.
func (p Policy) over(claimedAt time.Time) time.Time {
	return claimedAt.Add(p.MaxProcessing).Add(Margin)
}

// expiry returns expires_at for a row that becomes terminal now. Zero is
// never.
func (p Policy) expiry(now, claimedAt time.Time) time.Time {
	if p.Retention == Forever {
		return time.Time{}
	}
	at := now.Add(p.Retention)
	if over := p.over(claimedAt); at.Before(over) {
		return over
	}
	return at
}

// drift returns what a lease of the given length is shortened by, so that its
// owner stops before the ledger's clock can pass it: 1 % + 2 ms.
func drift(left time.Duration) time.Duration { return left/100 + 2*time.Millisecond }

// maxText bounds owner and reason, which are for people.
const maxText = 500

// plainText makes a text that every store takes: valid UTF-8, no NUL, at most
// maxText bytes.
func plainText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
