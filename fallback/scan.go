package fallback

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// InDoubt is the State of a row that this binary does not understand: its
// state or its record version is newer. Such a row is never claimable.
const InDoubt State = 255

// A rowReader reads a row of one kind.
type rowReader func(pgx.Rows) (*Record, error)

// readRecord reads {record}, and the response where it was asked for.
func readRecord(rows pgx.Rows) (*Record, error) {
	r, f := new(Record), fieldsOf(rows)
	copy(r.Digest[:], f.raw())
	r.Key = Key{Namespace: f.text(), Scope: f.text(), ID: f.text()}
	r.State = stateOf(f.raw())
	r.Fence = f.int8()
	copy(r.Token[:], f.raw())
	r.Owner = f.text()
	r.Fingerprint = Fingerprint{Version: uint8(f.int2()), Secret: uint8(f.int2()), Sum: f.bytes()}
	takeover, known := takeoverOf(f.raw())
	r.Policy = Policy{
		Takeover: takeover, Lease: f.span(), MaxProcessing: f.span(), MaxAttempts: f.int4(),
		Retention: f.spanOr(Forever), AfterExpiry: afterExpiryOf(f.raw()),
	}
	r.Attempts = f.int4()
	r.ClaimedAt, r.LeaseUntil, r.RecoverUntil = f.time(), f.time(), f.timeOrZero()
	r.CompletedAt, r.ReleasedAt, r.ExpiresAt = f.timeOrZero(), f.timeOrZero(), f.timeOrZero()
	r.Status, r.Size, r.Reason = f.int4(), f.int8(), f.text()
	r.Version, r.Now = f.int2(), f.time()
	if len(f.left) > 0 {
		r.Response = f.bytes()
	}
	if !known || r.Version > RecordVersion {
		r.State = InDoubt
	}
	return r, f.err
}

// readGrant reads {grant}: the part of a record that a grant needs.
func readGrant(rows pgx.Rows) (*Record, error) {
	r, f := new(Record), fieldsOf(rows)
	copy(r.Digest[:], f.raw())
	r.Fence = f.int8()
	copy(r.Token[:], f.raw())
	r.Attempts, r.ClaimedAt, r.LeaseUntil = f.int4(), f.time(), f.time()
	r.Policy.MaxProcessing, r.Now = f.span(), f.time()
	return r, f.err
}

// A text that this binary does not know puts the row in doubt.
func stateOf(text []byte) State {
	for i, name := range stateNames {
		if name == string(text) {
			return State(i)
		}
	}
	return InDoubt
}

func takeoverOf(text []byte) (t Takeover, known bool) {
	switch string(text) {
	case Hold.String():
		return Hold, true
	case Retry.String():
		return Retry, true
	}
	return Hold, false
}

// afterExpiryOf: an unknown rule is not claimable.
func afterExpiryOf(text []byte) AfterExpiry {
	if string(text) == RunAgain.String() {
		return RunAgain
	}
	return NeverAgain
}

// withGrant adds what an owner may rely on, if the row has a lease.
func (r *Record) withGrant(sent time.Time) {
	if r.State == Processing || r.State == Streaming {
		g := r.grant(sent)
		r.Grant = &g
	}
}

// micros returns a duration as the tables keep it.
func micros(d time.Duration) int64 { return d.Microseconds() }

// retentionMicros is null for ever.
func retentionMicros(d time.Duration) *int64 {
	if d == Forever {
		return nil
	}
	us := micros(d)
	return &us
}
