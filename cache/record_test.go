package cache

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redfence/redfence/internal/keyring"
)

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

// completed returns a record of the key whose digest is filled with id.
func completed(id byte, fence int64, expires time.Time) Record {
	return Record{
		Kind: Completed, Digest: [32]byte(bytes.Repeat([]byte{id}, 32)), Token: [16]byte{1, 2, 3}, Fence: fence,
		Fingerprint: Fingerprint{Version: 1, Secret: 2, Sum: []byte("sum")},
		ExpiresAt:   expires, Status: 201, Payload: []byte("payload"),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	at := time.UnixMicro(1_800_000_000_123_456)
	for name, keys := range map[string]Keys{"open": nil, "no secret": ring(t), "secret": ring(t, 4)} {
		for _, want := range []Record{
			completed(1, 1, at),
			completed(2, math.MaxInt64, time.Time{}),
			{Kind: Tombstone, Fence: 7, Status: -1, Payload: []byte("too large")},
			{Kind: Forgotten, Fence: 8, ExpiresAt: at},
		} {
			b, err := want.encode(keys)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decode(b, want.Digest, keys)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if _, err := decode(b, [32]byte{99}, keys); err == nil {
				t.Errorf("%s: accepted for another key", name)
			}
		}
	}
}

func TestEveryFlippedBitOfARecordIsSeen(t *testing.T) {
	keys := ring(t, 1)
	record := completed(1, 5, time.Time{})
	b, _ := record.encode(keys)
	for i := range 8 * len(b) {
		broken := bytes.Clone(b)
		broken[i/8] ^= 1 << (i % 8)
		if _, err := decode(broken, record.Digest, keys); err == nil {
			t.Fatalf("bit %d of byte %d", i%8, i/8)
		}
	}
	for n := range b {
		if _, err := decode(b[:n], record.Digest, keys); err == nil {
			t.Fatalf("cut after %d bytes", n)
		}
	}
}

func TestTagIsAskedForOnlyWithASecret(t *testing.T) {
	record := completed(1, 5, time.Time{})
	open, _ := record.encode(nil)
	tagged, _ := record.encode(ring(t, 1))
	if _, err := decode(open, record.Digest, ring(t, 1)); err == nil {
		t.Error("a record without a tag was accepted although a secret is configured")
	}
	if _, err := decode(tagged, record.Digest, nil); err == nil {
		t.Error("a tag was accepted without verifying it")
	}
	if _, err := decode(tagged, record.Digest, ring(t, 2, 1)); err != nil {
		t.Error("an older secret of the ring must verify")
	}
	if _, err := decode(tagged, record.Digest, ring(t, 2)); err == nil {
		t.Error("verified under another secret")
	}
}

func FuzzDecodeRecord(f *testing.F) {
	keys := ring(f, 1)
	record := completed(1, 5, time.UnixMicro(1))
	open, _ := record.encode(nil)
	tagged, _ := record.encode(keys)
	f.Add(open)
	f.Add(tagged)
	f.Add(open[:fixedSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = decode(b, record.Digest, keys)
		got, err := decode(b, record.Digest, nil)
		if err != nil {
			return
		}
		again, err := got.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("decoded %x, encoded %x", b, again)
		}
	})
}
