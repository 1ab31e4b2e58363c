package fallback

import "time"

// The conditions of protocol §3, on one row at one moment of the ledger's
// clock. The memory ledger acts on them; the SQL files say the same.

// known reports whether this binary understands the row.
func (r *Record) known() bool { return r.State.Known() && r.Version <= RecordVersion }

// claimable: released, or terminal, expired and free to run again. Claimable
// states are listed positively.
func (r *Record) claimable(now time.Time) bool {
	switch {
	case !r.known():
		return false
	case r.State == Released:
		return true
	case r.State == Completed, r.State == Tombstone:
		return expired(r, now) && r.Policy.AfterExpiry == RunAgain
	}
	return false
}

// takeable: processing, lapsed, Retry, attempts left, and the same request.
func (r *Record) takeable(now time.Time, f Fingerprint) bool {
	return r.known() && r.State == Processing && lapsed(r, now) &&
		r.Policy.Takeover == Retry && r.Attempts < r.Policy.MaxAttempts && r.Fingerprint.Equal(f)
}

// deadEnd: processing and lapsed, and nobody may take it over.
func (r *Record) deadEnd(now time.Time) bool {
	return r.known() && r.State == Processing && lapsed(r, now) &&
		(r.Policy.Takeover == Hold || r.Attempts >= r.Policy.MaxAttempts)
}

// renewable: the owner may move the lease. Under Retry a lapsed one is left
// to take-over, unless the background completer asks (late).
func (r *Record) renewable(now time.Time, late bool) bool {
	if r.State != Processing && r.State != Streaming || !r.known() {
		return false
	}
	return late || r.State == Streaming || r.Policy.Takeover == Hold || !lapsed(r, now)
}

// renewed returns the lease's new end: one lease from now, not past
// max_processing while the handler runs (late: it has returned), and never
// earlier than it was.
func (r *Record) renewed(now time.Time, late bool) time.Time {
	until := now.Add(r.Policy.Lease)
	if limit := r.ClaimedAt.Add(r.Policy.MaxProcessing); !late && limit.Before(until) {
		until = limit
	}
	if until.Before(r.LeaseUntil) {
		return r.LeaseUntil
	}
	return until
}

// open reports whether the owner may still end the claim as it likes.
func (r *Record) open() bool {
	return r.known() && (r.State == Processing || r.State == Unknown)
}

// terminal reports whether the row has expires_at.
func (r *Record) terminal() bool { return r.State == Completed || r.State == Tombstone }

// is reports whether the row is under this claim: token and fence.
func (r *Record) is(ref Ref) bool { return r.Token == ref.Token && r.Fence == ref.Fence }

func lapsed(r *Record, now time.Time) bool { return !now.Before(r.LeaseUntil) }

func expired(r *Record, now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

// grant returns what an owner may rely on, from a statement that was sent at
// the given time of this process and answered with the row.
func (r *Record) grant(sent time.Time) Grant {
	left := r.LeaseUntil.Sub(r.Now)
	whole := r.ClaimedAt.Add(r.Policy.MaxProcessing).Sub(r.Now)
	return Grant{
		Fence:    r.Fence,
		Attempt:  r.Attempts,
		Deadline: sent.Add(left - drift(left)),
		Cap:      sent.Add(whole - drift(whole)),
	}
}
