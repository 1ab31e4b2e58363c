package keyring

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func secret(id uint8, b byte) Secret { return Secret{ID: id, Bytes: bytes.Repeat([]byte{b}, 32)} }

func ring(t *testing.T, secrets ...Secret) *Ring {
	t.Helper()
	r, err := New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRotation(t *testing.T) {
	old := ring(t, secret(1, 'a'))
	rotated := ring(t, secret(2, 'b'), secret(1, 'a'))
	only := ring(t, secret(2, 'b'))

	data, bound := []byte("record"), []byte("digest")
	tag, err := old.Tag(nil, old.Current(), data)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := old.Seal(nil, old.Current(), data, bound)
	if err != nil {
		t.Fatal(err)
	}
	if !rotated.Verify(1, data, tag) {
		t.Error("the older secret does not verify after rotation")
	}
	if plain, err := rotated.Open(1, sealed, bound); err != nil || string(plain) != "record" {
		t.Errorf("open after rotation: %q, %v", plain, err)
	}
	if rotated.Current() != 2 {
		t.Errorf("new records are made under %d", rotated.Current())
	}
	if only.Verify(1, data, tag) {
		t.Error("verified under a secret that is not in the ring")
	}
	if _, err := only.Open(1, sealed, bound); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("open without the secret: %v", err)
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	r := ring(t, secret(7, 'x'))
	data, bound := []byte("a body"), []byte("its digest")
	tag, _ := r.Tag(nil, 7, data)
	sealed, _ := r.Seal(nil, 7, data, bound)
	for i := range 8 * len(sealed) {
		broken := bytes.Clone(sealed)
		broken[i/8] ^= 1 << (i % 8)
		if _, err := r.Open(7, broken, bound); !errors.Is(err, ErrOpen) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for i := range 8 * len(tag) {
		broken := bytes.Clone(tag)
		broken[i/8] ^= 1 << (i % 8)
		if r.Verify(7, data, broken) {
			t.Fatalf("bit %d of the tag is not seen", i)
		}
	}
	if _, err := r.Open(7, sealed, []byte("another digest")); !errors.Is(err, ErrOpen) {
		t.Error("opened under another record's digest")
	}
	if r.Verify(7, data, nil) || r.Verify(7, data, tag[:31]) {
		t.Error("a short tag verifies")
	}
}

func TestPurposesAreSeparate(t *testing.T) {
	r := ring(t, secret(1, 'a'))
	tag, _ := r.Tag(nil, 1, []byte("x"))
	print, _ := r.Fingerprint(nil, 1, []byte("x"))
	if bytes.Equal(tag, print) {
		t.Error("one key serves two purposes")
	}
}

// Keys derived from a secret are part of the record format: they never change.
func TestDerivationIsFrozen(t *testing.T) {
	r := ring(t, secret(1, 'a'))
	tag, _ := r.Tag(nil, 1, []byte("x"))
	print, _ := r.Fingerprint(nil, 1, []byte("x"))
	got := hex.EncodeToString(tag[:8]) + " " + hex.EncodeToString(print[:8])
	if want := "521d69ed6db8166b 4f1ee4b769c09526"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNilRing(t *testing.T) {
	r := ring(t)
	if r != nil || r.Current() != 0 || r.Verify(1, nil, nil) {
		t.Error("an empty ring does something")
	}
	if _, err := r.Seal(nil, 0, nil, nil); !errors.Is(err, ErrUnknownKey) {
		t.Error(err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := New(Secret{ID: 0, Bytes: make([]byte, 32)}, secret(1, 'a'), secret(1, 'b'), Secret{ID: 2, Bytes: []byte("short")})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"id 0", "id 1 is used twice", "5 bytes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "short") {
		t.Error("the error shows a secret")
	}
}

func BenchmarkVerify(b *testing.B) {
	r, _ := New(Secret{ID: 1, Bytes: make([]byte, 32)})
	data := make([]byte, 500)
	tag, _ := r.Tag(nil, 1, data)
	b.ReportAllocs()
	for b.Loop() {
		if !r.Verify(1, data, tag) {
			b.Fatal("no")
		}
	}
}
