package fallback

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// encodedRow is a row of one result, as the server would send it.
type encodedRow struct {
	pgx.Rows
	raw [][]byte
}

func (r encodedRow) RawValues() [][]byte { return r.raw }

func (r *encodedRow) add(t interface{ Fatal(...any) }, oid uint32, value any) {
	raw, err := pgtype.NewMap().Encode(oid, pgtype.BinaryFormatCode, value, []byte{})
	if err != nil {
		t.Fatal(err)
	}
	r.raw = append(r.raw, raw)
}

// TestFieldsAreTakenAsPgxEncodesThem: what pgx encodes in binary form comes back.
func TestFieldsAreTakenAsPgxEncodesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type values struct {
			Text        string
			Blob        []byte
			Two, Four   int
			Eight       int64
			At, Maybe   time.Time
			Span, Other time.Duration
		}
		micro := rapid.Int64Range(-60e15, 200e15) // from 4700 B.C. on
		want := values{
			Text: rapid.String().Draw(t, "text"), Blob: rapid.SliceOf(rapid.Byte()).Draw(t, "blob"),
			Two: int(rapid.Int16().Draw(t, "two")), Four: int(rapid.Int32().Draw(t, "four")),
			Eight: rapid.Int64().Draw(t, "eight"), At: time.UnixMicro(micro.Draw(t, "at")),
			Span: time.Duration(rapid.Int32().Draw(t, "span")) * time.Microsecond, Other: Forever,
		}
		var row encodedRow
		row.add(t, pgtype.TextOID, want.Text)
		row.add(t, pgtype.ByteaOID, want.Blob)
		row.add(t, pgtype.Int2OID, want.Two)
		row.add(t, pgtype.Int4OID, want.Four)
		row.add(t, pgtype.Int8OID, want.Eight)
		row.add(t, pgtype.TimestamptzOID, want.At)
		row.add(t, pgtype.Int8OID, micros(want.Span))
		maybe, other := any(nil), any(nil)
		if rapid.Bool().Draw(t, "not null") {
			want.Maybe, want.Other = want.At, want.Span
			maybe, other = want.At, micros(want.Span)
		}
		row.add(t, pgtype.TimestamptzOID, maybe)
		row.add(t, pgtype.Int8OID, other)

		f := fieldsOf(row)
		got := values{
			Text: f.text(), Blob: f.bytes(), Two: f.int2(), Four: f.int4(), Eight: f.int8(),
			At: f.time(), Span: f.span(), Maybe: f.timeOrZero(), Other: f.spanOr(Forever),
		}
		if diff := cmp.Diff(want, got); diff != "" || f.err != nil {
			t.Fatalf("(-want +got) %s %v", diff, f.err)
		}
	})
}

// TestFieldsThatCannotBeTaken: a column that is missing, of another size or not
// a time is an error of the row, never a value.
func TestFieldsThatCannotBeTaken(t *testing.T) {
	eight := make([]byte, 8)
	infinite := []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	minus := []byte{0x80, 0, 0, 0, 0, 0, 0, 0}
	for what, raw := range map[string][][]byte{
		"nothing": {}, "a null": {nil, eight}, "four bytes": {eight[:4], eight},
		"infinity": {infinite, eight}, "minus infinity": {minus, eight}, "one column": {eight},
	} {
		f := fieldsOf(encodedRow{raw: raw})
		if f.time(); len(raw) < 2 {
			f.int8()
		}
		if f.err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for what, read := range map[string]rowReader{"record": readRecord, "grant": readGrant} {
		if _, err := read(encodedRow{raw: [][]byte{eight}}); err == nil {
			t.Errorf("a %s of one column is read", what)
		}
	}
}

// TestRecordsAreReadAsPgxReadsThem: each column of a row arrives where it
// belongs.
func TestRecordsAreReadAsPgxReadsThem(t *testing.T) {
	at := func(n int) time.Time { return time.UnixMicro(1_700_000_000_000_000 + int64(n)) }
	want := Record{
		Digest: Digest{1}, Key: Key{Namespace: "do", Scope: "a\x00b", ID: "\xff"},
		State: Completed, Fence: math.MaxInt64, Token: Token{2}, Owner: "wörk",
		Fingerprint: Fingerprint{Version: 3, Secret: 4, Sum: []byte{5}},
		Policy: Policy{
			Takeover: Retry, Lease: 6 * time.Microsecond, MaxProcessing: 7 * time.Microsecond, MaxAttempts: 8,
			Retention: 9 * time.Microsecond, AfterExpiry: NeverAgain,
		},
		Attempts: 10, ClaimedAt: at(11), LeaseUntil: at(12), RecoverUntil: at(13), CompletedAt: at(14),
		ReleasedAt: at(15), ExpiresAt: at(16), Status: 17, Size: 18, Reason: "nineteen", Version: 1,
		Now: at(20), Response: []byte("21"),
	}
	row := func(state, takeover string, version int) (row encodedRow) {
		for _, c := range []struct {
			oid   uint32
			value any
		}{
			{pgtype.ByteaOID, want.Digest[:]}, {pgtype.TextOID, "do"}, {pgtype.ByteaOID, []byte("a\x00b")},
			{pgtype.ByteaOID, []byte("\xff")}, {pgtype.TextOID, state}, {pgtype.Int8OID, want.Fence},
			{pgtype.ByteaOID, want.Token[:]}, {pgtype.TextOID, "wörk"}, {pgtype.Int2OID, 3}, {pgtype.Int2OID, 4},
			{pgtype.ByteaOID, []byte{5}}, {pgtype.TextOID, takeover}, {pgtype.Int8OID, 6}, {pgtype.Int8OID, 7},
			{pgtype.Int4OID, 8}, {pgtype.Int8OID, 9}, {pgtype.TextOID, "never again"}, {pgtype.Int4OID, 10},
			{pgtype.TimestamptzOID, at(11)}, {pgtype.TimestamptzOID, at(12)}, {pgtype.TimestamptzOID, at(13)},
			{pgtype.TimestamptzOID, at(14)}, {pgtype.TimestamptzOID, at(15)}, {pgtype.TimestamptzOID, at(16)},
			{pgtype.Int4OID, 17}, {pgtype.Int8OID, 18}, {pgtype.TextOID, "nineteen"}, {pgtype.Int2OID, version},
			{pgtype.TimestamptzOID, at(20)}, {pgtype.ByteaOID, []byte("21")},
		} {
			row.add(t, c.oid, c.value)
		}
		return row
	}
	got, err := readRecord(row("completed", "retry", 1))
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Errorf("(-want +got) %s %v", diff, err)
	}
	for what, r := range map[string]encodedRow{
		"state": row("tomorrow's", "retry", 1), "takeover": row("completed", "perhaps", 1), "version": row("completed", "retry", 2),
	} {
		if got, err := readRecord(r); err != nil || got.State != InDoubt {
			t.Errorf("an unknown %s is not in doubt: %+v, %v", what, got, err)
		}
	}
}
