package fallback

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// TestParametersAreEncodedAsPgxDoes: the parameters of a batch are the bytes that
// pgx makes of slices of the same values.
func TestParametersAreEncodedAsPgxDoes(t *testing.T) {
	type values struct {
		text   string
		blob   []byte
		number int64
		yes    bool
	}
	type tickets = []*ticket[values, struct{}]
	rapid.Check(t, func(t *rapid.T) {
		batch := make(tickets, rapid.IntRange(1, 5).Draw(t, "size"))
		for i := range batch {
			batch[i] = &ticket[values, struct{}]{ask: values{
				text: rapid.String().Draw(t, "text"), number: rapid.Int64().Draw(t, "number"),
				blob: rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just[[]byte](nil)).Draw(t, "blob"),
				yes:  rapid.Bool().Draw(t, "yes"),
			}}
		}
		type one = *ticket[values, struct{}]
		number := func(t one) int64 { return t.ask.number }
		half := func(t one) int32 { return int32(t.ask.number) }
		short := func(t one) int16 { return int16(t.ask.number) }
		text := func(t one) string { return t.ask.text }
		blob := func(t one) []byte { return t.ask.blob }
		yes := func(t one) bool { return t.ask.yes }
		for oid, c := range map[uint32]struct {
			ours parameter
			pgx  any
		}{
			pgtype.TextArrayOID:  {texts(batch, text), column(batch, text)},
			pgtype.ByteaArrayOID: {blobs(batch, blob), column(batch, blob)},
			pgtype.Int2ArrayOID:  {int2s(batch, short), column(batch, short)},
			pgtype.Int4ArrayOID:  {int4s(batch, half), column(batch, half)},
			pgtype.Int8ArrayOID:  {int8s(batch, number), column(batch, number)},
			pgtype.BoolArrayOID:  {bools(batch, yes), column(batch, yes)},
		} {
			want, err := pgtype.NewMap().Encode(oid, pgtype.BinaryFormatCode, c.pgx, []byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			if got := c.ours.array([]byte("before")); !bytes.Equal(got, want) {
				t.Errorf("an array of type %d: %x, want %x", oid, got, want)
			}
			checkValue(t, oid, c.ours, c.pgx)
		}
	})
}

// checkValue compares the first value of a field with what pgx makes of it.
func checkValue(t *rapid.T, arrayOID uint32, ours parameter, values any) {
	types := pgtype.NewMap()
	array, _ := types.TypeForOID(arrayOID)
	element := array.Codec.(*pgtype.ArrayCodec).ElementType.OID
	first := reflect.ValueOf(values).Index(0).Interface()
	want, err := types.Encode(element, pgtype.BinaryFormatCode, first, []byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	if got := ours.value([]byte("before")); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		t.Errorf("a value of type %d: %x, want %x", element, got, want)
	}
}
