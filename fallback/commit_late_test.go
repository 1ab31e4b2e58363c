package fallback_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestCommitOfAClaimIsLate: what a claim says arrives up to its COMMIT, which
// is late: the network breaks within a batch. Its row cannot be seen, and its
// not-after passes. A re-read does not say that there is no claim; once the
// COMMIT has arrived it finds the claim.
func TestCommitOfAClaimIsLate(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	link, via := newLink(t, server.URL())
	l := openLedger(t, newPool(t, via, noPing), brisk)
	direct := openLedger(t, newPool(t, server.URL()), brisk)
	mustClaim(t, l, newRequest(holdPolicy())) // the connection is there
	r := newRequest(holdPolicy())
	link.holdingFrom(commitMessage())
	_, err := l.Claim(t.Context(), r)
	var unconfirmed *fallback.UnconfirmedError
	if !errors.As(err, &unconfirmed) {
		t.Fatalf("got %v", err)
	}
	if link.keeping() == 0 {
		t.Fatal("no COMMIT was held: the test shows nothing")
	}
	eventually(t, "not-after passes", func() bool {
		return mustRead(t, direct, fallback.Digest{}).Now.After(unconfirmed.NotAfter)
	})
	for _, reread := range []func() (fallback.Record, error){
		func() (fallback.Record, error) { return l.Read(t.Context(), r.Digest) },
		func() (fallback.Record, error) { return l.Confirm(t.Context(), r.Digest) },
	} {
		if row, err := reread(); !errors.Is(err, fallback.ErrBusy) {
			t.Errorf("a re-read says %v, %v; want ErrBusy", row.State, err)
		}
	}
	link.deliver()
	eventually(t, "the re-read finds the claim", func() bool {
		row, err := l.Confirm(t.Context(), r.Digest)
		if errors.Is(err, fallback.ErrBusy) {
			return false
		}
		if err != nil || row.Token != r.Token || row.State != fallback.Processing {
			t.Fatalf("%+v, %v", row, err)
		}
		return true
	})
}

// commitMessage returns how the message begins that binds the prepared
// statement of COMMIT.
func commitMessage() func(said []byte) int {
	sum := sha256.Sum256([]byte("COMMIT"))
	name := []byte("redfence_" + hex.EncodeToString(sum[:8]))
	return func(said []byte) int {
		at := bytes.Index(said, name)
		if at < 0 {
			return -1
		}
		return at - 6 // 'B', four bytes of length, the unnamed portal
	}
}
