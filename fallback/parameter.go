package fallback

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// A parameter is one field of a batch. It appends itself in Postgres'
// binary form, as pgx would encode a slice of the same values or the value of a
// single row: by reflection, and one allocation for each value.
type parameter struct {
	rows    int
	element uint32 // OID of the type of one value
	// put appends the value of row i, or returns nil for null.
	put func(buf []byte, i int) []byte
}

const null = 1<<32 - 1 // the length of a null element

// array appends the values of all rows, as an array.
func (p parameter) array(buf []byte) []byte {
	buf = binary.BigEndian.AppendUint32(buf, 1) // dimension
	nulls := len(buf)
	for _, n := range [...]uint32{0, p.element, uint32(p.rows), 1} { // the first index is 1
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for i := range p.rows {
		at := len(buf)
		buf = binary.BigEndian.AppendUint32(buf, null)
		longer := p.put(buf, i)
		if longer == nil {
			binary.BigEndian.PutUint32(buf[nulls:], 1)
			continue
		}
		buf = longer
		binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	}
	return buf
}

// value appends the value of the only row; nil: it is null.
func (p parameter) value(buf []byte) []byte { return p.put(buf, 0) }

func parameterOf[Q, R any](batch []*ticket[Q, R], element uint32, put func([]byte, *ticket[Q, R]) []byte) parameter {
	return parameter{len(batch), element, func(buf []byte, i int) []byte { return put(buf, batch[i]) }}
}

func texts[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) string) parameter {
	return parameterOf(batch, pgtype.TextOID, func(buf []byte, t *ticket[Q, R]) []byte { return append(buf, of(t)...) })
}

// blobs takes nil for null.
func blobs[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) []byte) parameter {
	return parameterOf(batch, pgtype.ByteaOID, func(buf []byte, t *ticket[Q, R]) []byte {
		value := of(t)
		if value == nil {
			return nil
		}
		return append(buf, value...)
	})
}

// opaque is a string of any bytes, as a bytea.
func opaque[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) string) parameter {
	return parameterOf(batch, pgtype.ByteaOID, func(buf []byte, t *ticket[Q, R]) []byte { return append(buf, of(t)...) })
}

// keys are the digests of a batch.
func keys[Q, R any](batch []*ticket[Q, R]) parameter {
	return blobs(batch, func(t *ticket[Q, R]) []byte { return t.digest[:] })
}

func int2s[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) int16) parameter {
	return parameterOf(batch, pgtype.Int2OID, func(buf []byte, t *ticket[Q, R]) []byte {
		return binary.BigEndian.AppendUint16(buf, uint16(of(t)))
	})
}

func int4s[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) int32) parameter {
	return parameterOf(batch, pgtype.Int4OID, func(buf []byte, t *ticket[Q, R]) []byte {
		return binary.BigEndian.AppendUint32(buf, uint32(of(t)))
	})
}

func int8s[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) int64) parameter {
	return parameterOf(batch, pgtype.Int8OID, func(buf []byte, t *ticket[Q, R]) []byte {
		return binary.BigEndian.AppendUint64(buf, uint64(of(t)))
	})
}

func bools[Q, R any](batch []*ticket[Q, R], of func(*ticket[Q, R]) bool) parameter {
	return parameterOf(batch, pgtype.BoolOID, func(buf []byte, t *ticket[Q, R]) []byte {
		if of(t) {
			return append(buf, 1)
		}
		return append(buf, 0)
	})
}
