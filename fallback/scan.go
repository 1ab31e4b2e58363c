package fallback

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// InDoubt is the State of a row that this binary does not understand: its
// state or its record version is newer. Such a row is never claimable.
const InDoubt State = 255

// stored turns the texts of a row into what they name. A text that this
// binary does not know puts the row in doubt.
type stored struct {
	state, takeover, afterExpiry   string
	leaseUS, maxProcessingUS       int64
	retentionUS                    *int64
	recover, done, freed, expires  *time.Time
	digest, token, scope, id       pgtype.DriverBytes // of the connection: until the next row
	fpVersion, fpSecret, recordVer int16
}

// A rowReader reads the rows of one result, one after the other.
type rowReader func(pgx.Rows) (*Record, error)

// recordReader returns a reader of {record}, and of the response where it was
// asked for.
func recordReader() rowReader {
	var r Record
	var s stored
	into := []any{
		&s.digest, &r.Key.Namespace, &s.scope, &s.id, &s.state, &r.Fence, &s.token, &r.Owner,
		&s.fpVersion, &s.fpSecret, &r.Fingerprint.Sum, &s.takeover, &s.leaseUS, &s.maxProcessingUS,
		&r.Policy.MaxAttempts, &s.retentionUS, &s.afterExpiry, &r.Attempts, &r.ClaimedAt, &r.LeaseUntil,
		&s.recover, &s.done, &s.freed, &s.expires, &r.Status, &r.Size, &r.Reason,
		&s.recordVer, &r.Now,
	}
	return func(rows pgx.Rows) (*Record, error) {
		r = Record{}
		if len(rows.FieldDescriptions()) > len(into) {
			into = append(into, &r.Response)
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		s.fill(&r)
		read := r
		return &read, nil
	}
}

func (s *stored) fill(r *Record) {
	copy(r.Digest[:], s.digest)
	copy(r.Token[:], s.token)
	r.Key.Scope, r.Key.ID = string(s.scope), string(s.id)
	r.Fingerprint.Version, r.Fingerprint.Secret = uint8(s.fpVersion), uint8(s.fpSecret)
	r.Version = int(s.recordVer)
	r.State = stateOf(s.state)
	r.Policy.Lease = time.Duration(s.leaseUS) * time.Microsecond
	r.Policy.MaxProcessing = time.Duration(s.maxProcessingUS) * time.Microsecond
	r.Policy.Retention = Forever
	if s.retentionUS != nil {
		r.Policy.Retention = time.Duration(*s.retentionUS) * time.Microsecond
	}
	var known bool
	if r.Policy.Takeover, known = takeoverOf(s.takeover); !known || r.Version > RecordVersion {
		r.State = InDoubt
	}
	if s.afterExpiry != RunAgain.String() { // an unknown rule is not claimable either
		r.Policy.AfterExpiry = NeverAgain
	}
	r.RecoverUntil, r.CompletedAt = orZero(s.recover), orZero(s.done)
	r.ReleasedAt, r.ExpiresAt = orZero(s.freed), orZero(s.expires)
}

func stateOf(text string) State {
	for i, name := range stateNames {
		if name == text {
			return State(i)
		}
	}
	return InDoubt
}

func takeoverOf(text string) (Takeover, bool) {
	switch text {
	case Hold.String():
		return Hold, true
	case Retry.String():
		return Retry, true
	}
	return Hold, false
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// withGrant adds what an owner may rely on, if the row has a lease.
func (r *Record) withGrant(sent time.Time) {
	if r.State == Processing || r.State == Streaming {
		g := r.grant(sent)
		r.Grant = &g
	}
}

// grantReader returns a reader of {grant}: the part of a record that a grant
// needs.
func grantReader() rowReader {
	var r Record
	var digest, token pgtype.DriverBytes
	var maxProcessingUS int64
	into := []any{&digest, &r.Fence, &token, &r.Attempts, &r.ClaimedAt, &r.LeaseUntil, &maxProcessingUS, &r.Now}
	return func(rows pgx.Rows) (*Record, error) {
		r = Record{}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		copy(r.Digest[:], digest)
		copy(r.Token[:], token)
		r.Policy.MaxProcessing = time.Duration(maxProcessingUS) * time.Microsecond
		read := r
		return &read, nil
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
