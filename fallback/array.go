package fallback

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// An array is an array parameter that appends itself in Postgres' binary form,
// as pgx would encode a slice of the same values: by reflection, and one
// allocation for each value.
type array func(buf []byte) []byte

const null = 1<<32 - 1 // the length of a null element

// arrayOf returns one field of a batch as a parameter. put appends the value of
// a ticket, or returns nil for null.
func arrayOf[Q, R any](batch []*ticket[Q, R], element uint32, put func([]byte, *ticket[Q, R]) []byte) array {
	return func(buf []byte) []byte {
		buf = binary.BigEndian.AppendUint32(buf, 1) // dimension
		nulls := len(buf)
		for _, n := range [...]uint32{0, element, uint32(len(batch)), 1} { // the first index is 1
			buf = binary.BigEndian.AppendUint32(buf, n)
		}
		for _, t := range batch {
			at := len(buf)
			buf = binary.BigEndian.AppendUint32(buf, null)
			longer := put(buf, t)
			if longer == nil {
				binary.BigEndian.PutUint32(buf[nulls:], 1)
				continue
			}
			buf = longer
			binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
		}
		return buf
	}
}

func texts[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) string) array {
	return arrayOf(batch, pgtype.TextOID, func(buf []byte, t *ticket[Q, R]) []byte { return append(buf, of(t)...) })
}

// blobs takes nil for null.
func blobs[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) []byte) array {
	return arrayOf(batch, pgtype.ByteaOID, func(buf []byte, t *ticket[Q, R]) []byte {
		value := of(t)
		if value == nil {
			return nil
		}
		return append(buf, value...)
	})
}

// opaque is a string of any bytes, as a bytea.
func opaque[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) string) array {
	return arrayOf(batch, pgtype.ByteaOID, func(buf []byte, t *ticket[Q, R]) []byte { return append(buf, of(t)...) })
}

// keys are the digests of a batch.
func keys[Q, R any](batch []*ticket[Q, R]) array {
	return blobs(batch, func(t *ticket[Q, R]) []byte { return t.digest[:] })
}

func int2s[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) int16) array {
	return arrayOf(batch, pgtype.Int2OID, func(buf []byte, t *ticket[Q, R]) []byte {
		return binary.BigEndian.AppendUint16(buf, uint16(of(t)))
	})
}

func int4s[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) int32) array {
	return arrayOf(batch, pgtype.Int4OID, func(buf []byte, t *ticket[Q, R]) []byte {
		return binary.BigEndian.AppendUint32(buf, uint32(of(t)))
	})
}

func int8s[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) int64) array {
	return arrayOf(batch, pgtype.Int8OID, func(buf []byte, t *ticket[Q, R]) []byte {
		return binary.BigEndian.AppendUint64(buf, uint64(of(t)))
	})
}

func bools[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) bool) array {
	return arrayOf(batch, pgtype.BoolOID, func(buf []byte, t *ticket[Q, R]) []byte {
		if of(t) {
			return append(buf, 1)
		}
		return append(buf, 0)
	})
}
