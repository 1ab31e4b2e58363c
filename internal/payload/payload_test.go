package payload

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/redfence/redfence/internal/keyring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var digest = bytes.Repeat([]byte{7}, 32)

func ring(t testing.TB, ids ...uint8) *keyring.Ring {
	t.Helper()
	var secrets []keyring.Secret
	for _, id := range ids {
		secrets = append(secrets, keyring.Secret{ID: id, Bytes: bytes.Repeat([]byte{id}, 32)})
	}
	r, err := keyring.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codecs(t testing.TB) map[string]*Codec {
	return map[string]*Codec{
		"plain":      {},
		"compressed": {CompressAbove: 1},
		"sealed":     {Seal: true, Ring: ring(t, 3)},
		"both":       {CompressAbove: 1024, Seal: true, Ring: ring(t, 3, 2)},
	}
}

func response() *Response {
	return &Response{
		Status: 201,
		Header: map[string][]string{
			"Location": {"/charges/1"},
			"Link":     {`</b>; rel="next"`, `</a>; rel="prev"`},
			"X-Empty":  {""},
			"X-None":   {},
		},
		Body: []byte(`{"id":"ch_1"}`),
	}
}

// differ compares bodies by themselves: cmp would walk them byte by byte.
func differ(want, got Response) string {
	if !bytes.Equal(want.Body, got.Body) {
		return "bodies differ"
	}
	want.Body, got.Body = nil, nil
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

func TestRoundTrip(t *testing.T) {
	for name, codec := range codecs(t) {
		for _, want := range []*Response{
			response(), {}, {Status: -1}, {Status: 200, Body: []byte("\x00\xff")},
			{IsErr: true}, {IsErr: true, Err: "card declined"},
			{Status: 200, Body: bytes.Repeat([]byte("redfence "), 20_000)},
		} {
			b, err := codec.Encode([]byte("before"), want, digest)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := codec.Decode(bytes.TrimPrefix(b, []byte("before")), digest)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := differ(*want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestRoundTripProperty(t *testing.T) {
	all := codecs(t)
	rapid.Check(t, func(rt *rapid.T) {
		want := &Response{
			Status: rapid.Int().Draw(rt, "status"),
			Header: rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(rt, "header"),
			Body:   rapid.SliceOf(rapid.Byte()).Draw(rt, "body"),
		}
		codec := all[rapid.SampledFrom([]string{"plain", "compressed", "sealed", "both"}).Draw(rt, "codec")]
		b, err := codec.Encode(nil, want, digest)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := codec.Decode(b, digest)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := differ(*want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestEncodingIsDeterministic(t *testing.T) {
	codec := &Codec{CompressAbove: 64}
	first, _ := codec.Encode(nil, response(), digest)
	for range 50 { // maps iterate in another order each time
		again, _ := codec.Encode(nil, response(), digest)
		if !bytes.Equal(first, again) {
			t.Fatal("one response, two encodings")
		}
	}
}

func TestI27Rotation(t *testing.T) {
	old := &Codec{Seal: true, Ring: ring(t, 1)}
	b, err := old.Encode(nil, response(), digest)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("ch_1")) {
		t.Error("the body can be read")
	}
	rotated := &Codec{Seal: true, Ring: ring(t, 2, 1)}
	if _, err := rotated.Decode(b, digest); err != nil {
		t.Errorf("old records must replay: %v", err)
	}
	for name, wrong := range map[string]*Codec{
		"no ring":        {},
		"another secret": {Ring: ring(t, 2)},
	} {
		if _, err := wrong.Decode(b, digest); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := rotated.Decode(b, make([]byte, 32)); !errors.Is(err, ErrSealed) {
		t.Errorf("opened under another key's digest: %v", err)
	}
}

func TestSealWithoutSecretIsAnError(t *testing.T) {
	if _, err := (&Codec{Seal: true}).Encode(nil, response(), digest); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Errorf("got %v", err)
	}
}

func TestDecompressionBomb(t *testing.T) {
	bomb := must(zstd.NewWriter(nil)).EncodeAll(make([]byte, 32<<20), nil)
	codec := &Codec{MaxSize: 1 << 20}
	before := allocated()
	_, err := codec.Decode(append([]byte{version, flagCompressed, 0}, bomb...), digest)
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
	if grown := allocated() - before; grown > 2<<20 {
		t.Errorf("%d bytes were allocated for a frame over the limit", grown)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestUnknownVersionsAndFlagsAreRefused(t *testing.T) {
	good, _ := (&Codec{}).Encode(nil, response(), digest)
	for i, value := range map[int]byte{0: 2, 1: 4, 2: 1} {
		b := bytes.Clone(good)
		b[i] = value
		if _, err := (&Codec{}).Decode(b, digest); !errors.Is(err, ErrMalformed) {
			t.Errorf("byte %d = %d: %v", i, value, err)
		}
	}
	for n := range good[:len(good)-len(response().Body)] {
		if _, err := (&Codec{}).Decode(good[:n], digest); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	all := codecs(f)
	for _, codec := range all {
		for _, r := range []*Response{response(), {IsErr: true, Err: "x"}, {Body: []byte(strings.Repeat("a", 2000))}} {
			b, err := codec.Encode(nil, r, digest)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	codec := &Codec{Ring: ring(f, 3, 2), MaxSize: 1 << 16}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := allocated()
		r, err := codec.Decode(b, digest)
		if grown := allocated() - before; grown > 1<<20+64*uint64(len(b)) {
			t.Fatalf("%d bytes allocated for %d", grown, len(b))
		}
		if err != nil {
			return
		}
		again, err := (&Codec{}).Encode(nil, &r, digest)
		if err != nil {
			t.Fatal(err)
		}
		back, err := codec.Decode(again, digest)
		if err != nil {
			t.Fatal(err)
		}
		if diff := differ(r, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	r := response()
	r.Body = bytes.Repeat([]byte("x"), 300)
	enc, _ := (&Codec{}).Encode(nil, r, digest)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (&Codec{}).Decode(enc, digest); err != nil {
			b.Fatal(err)
		}
	}
}
