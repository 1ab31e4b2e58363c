package fallback

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// fields takes the columns of one row, one after the other, in Postgres' binary
// form: what pgx does by reflection, with an allocation for every other column.
// What cannot be taken is in err.
type fields struct {
	left [][]byte
	err  error
}

func fieldsOf(rows pgx.Rows) fields { return fields{left: rows.RawValues()} }

// raw is the connection's memory: until the next row. Nil: the field is null.
func (f *fields) raw() []byte {
	if len(f.left) == 0 {
		f.err = errors.New("the row has too few columns")
		return nil
	}
	value := f.left[0]
	f.left = f.left[1:]
	return value
}

func (f *fields) bytes() []byte { return bytes.Clone(f.raw()) }
func (f *fields) text() string  { return string(f.raw()) }

func (f *fields) int2() int   { return int(int16(binary.BigEndian.Uint16(f.exactly(2, f.raw())))) }
func (f *fields) int4() int   { return int(int32(binary.BigEndian.Uint32(f.exactly(4, f.raw())))) }
func (f *fields) int8() int64 { return int64(binary.BigEndian.Uint64(f.exactly(8, f.raw()))) }

// exactly returns so many bytes, whatever the value.
func (f *fields) exactly(size int, value []byte) []byte {
	if len(value) == size {
		return value
	}
	f.err = fmt.Errorf("a value of %d bytes where %d are expected", len(value), size)
	return make([]byte, size)
}

// span takes microseconds.
func (f *fields) span() time.Duration { return time.Duration(f.int8()) * time.Microsecond }

// spanOr is other for null.
func (f *fields) spanOr(other time.Duration) time.Duration {
	if len(f.left) > 0 && f.left[0] == nil {
		f.left = f.left[1:]
		return other
	}
	return f.span()
}

// y2k is where Postgres' time begins, in Unix seconds.
const y2k = 946_684_800

func (f *fields) time() time.Time {
	us := f.int8()
	if us == math.MaxInt64 || us == math.MinInt64 {
		f.err = errors.New("an infinite time")
	}
	return time.Unix(y2k+us/1e6, us%1e6*1e3)
}

// timeOrZero is zero for null.
func (f *fields) timeOrZero() time.Time {
	if len(f.left) > 0 && f.left[0] == nil {
		f.left = f.left[1:]
		return time.Time{}
	}
	return f.time()
}
