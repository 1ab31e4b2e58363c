package cache

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// Kind says what a record is.
type Kind uint8

const (
	// Completed: the payload is the response.
	Completed Kind = iota + 1
	// Tombstone: completed, but the response cannot be replayed.
	Tombstone
	// Forgotten marks a key whose response was erased.
	Forgotten
)

// A Fingerprint tells two requests with one key apart; as the ledger keeps it.
type Fingerprint struct {
	Version uint8
	Secret  uint8
	Sum     []byte
}

// A Record is the cached copy of one committed terminal row of the ledger.
type Record struct {
	Kind        Kind
	Digest      [32]byte
	Token       [16]byte
	Fence       int64
	Fingerprint Fingerprint
	// ExpiresAt is the ledger's; zero: never.
	ExpiresAt time.Time
	Status    int
	// Payload is the encoded response; of a tombstone its reason.
	Payload []byte
}

// The format of a record, version 1:
//
//	0   version     1 byte: 1
//	1   kind        1 byte
//	2   key id      1 byte: the secret that the tag is made under; 0: no tag
//	3   fence       8 bytes, big endian (put.lua reads it here)
//	11  digest      32 bytes
//	43  token       16 bytes
//	59  expires_at  8 bytes: microseconds since 1970; MaxInt64: never
//	67  status      4 bytes, signed
//	71  fingerprint version, secret id, length of the sum, 1 byte each; the sum
//	    payload     to the end, or to the tag
//	    tag         32 bytes, over everything before it
const (
	formatVersion = 1
	fixedSize     = 74
	tagSize       = 32
	maxSum        = math.MaxUint8
)

var (
	errUnverified = errors.New("record does not verify")
	errTooLong    = errors.New("fingerprint is longer than 255 bytes")
)

// Keys authenticates records; a keyring does. A nil Keys, or one whose Current
// is 0, means that records carry no tag and none is asked for.
type Keys interface {
	// Current is the id of the secret that new records are made under.
	Current() uint8
	// Tag appends the 32-byte tag of data under a secret to dst.
	Tag(dst []byte, id uint8, data []byte) ([]byte, error)
	// Verify reports whether tag is the tag of data under a secret.
	Verify(id uint8, data, tag []byte) bool
}

func current(keys Keys) uint8 {
	if keys == nil {
		return 0
	}
	return keys.Current()
}

func (r *Record) encode(keys Keys) ([]byte, error) {
	if len(r.Fingerprint.Sum) > maxSum {
		return nil, errTooLong
	}
	id := current(keys)
	b := make([]byte, 0, fixedSize+len(r.Fingerprint.Sum)+len(r.Payload)+tagSize)
	b = append(b, formatVersion, byte(r.Kind), id)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Fence))
	b = append(b, r.Digest[:]...)
	b = append(b, r.Token[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(micros(r.ExpiresAt)))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(r.Status)))
	b = append(b, r.Fingerprint.Version, r.Fingerprint.Secret, byte(len(r.Fingerprint.Sum)))
	b = append(b, r.Fingerprint.Sum...)
	b = append(b, r.Payload...)
	if id == 0 {
		return b, nil
	}
	return keys.Tag(b, id, b)
}

// decode returns the record of a key. Its slices share memory with b. A record
// without a tag is refused where tags are made: else a forger would leave it
// out.
func decode(b []byte, digest [32]byte, keys Keys) (Record, error) {
	if len(b) < fixedSize || b[0] != formatVersion {
		return Record{}, errUnverified
	}
	id := b[2]
	if (id == 0) != (current(keys) == 0) {
		return Record{}, errUnverified
	}
	if id != 0 {
		body := len(b) - tagSize
		if body < fixedSize || !keys.Verify(id, b[:body], b[body:]) {
			return Record{}, errUnverified
		}
		b = b[:body]
	}
	r, ok := parse(b)
	if !ok || r.Digest != digest || r.Kind < Completed || r.Kind > Forgotten {
		return Record{}, errUnverified
	}
	return r, nil
}

// parse reads a record of at least fixedSize bytes. ok is false when its sum is
// cut off or its time is one that no ledger writes.
func parse(b []byte) (r Record, ok bool) {
	expires, sum, rest := int64(binary.BigEndian.Uint64(b[59:])), int(b[73]), b[fixedSize:]
	if expires < 0 || sum > len(rest) {
		return Record{}, false
	}
	return Record{
		Kind:      Kind(b[1]),
		Fence:     int64(binary.BigEndian.Uint64(b[3:])),
		Digest:    [32]byte(b[11:]),
		Token:     [16]byte(b[43:]),
		ExpiresAt: timeOf(expires),
		Status:    int(int32(binary.BigEndian.Uint32(b[67:]))),
		Fingerprint: Fingerprint{
			Version: b[71], Secret: b[72], Sum: rest[:sum:sum],
		},
		Payload: rest[sum:],
	}, true
}

// never is how the format writes a zero ExpiresAt; no real time reaches it.
const never = math.MaxInt64

func micros(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return t.UnixMicro()
}

func timeOf(micros int64) time.Time {
	if micros == never {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}
