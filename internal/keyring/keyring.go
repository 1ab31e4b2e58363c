// Package keyring holds a deployment's secrets: one that new records are made
// under and older ones that still verify. Each secret has an id that records
// name, so that secrets can be rotated.
//
// From each secret three keys are derived with HKDF-SHA-256, one per purpose:
// authenticating records (HMAC-SHA-256), sealing bodies (AES-256-GCM) and
// keying fingerprints (HMAC-SHA-256). None can stand in for another.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash"
	"sync"

	"github.com/redfence/redfence/internal/problems"
)

// MinSecret is the least length of a secret, in bytes.
const MinSecret = 16

// TagSize is the length of a tag, in bytes.
const TagSize = sha256.Size

// Overhead is how much longer a sealed text is: nonce and tag.
const Overhead = nonceSize + 16

const nonceSize = 12

// ErrUnknownKey says that a record names a secret that the ring does not hold.
var ErrUnknownKey = errors.New("secret not in the ring")

// ErrOpen says that a sealed text is forged, broken or bound to another record.
var ErrOpen = errors.New("sealed text does not open")

// A Secret is one secret and the id that records name it by. The id is from 1
// to 255 and must never be given to another secret; 0 means "no secret".
type Secret struct {
	ID    uint8
	Bytes []byte
}

// A Ring is immutable and safe for concurrent use. A nil Ring holds nothing.
type Ring struct {
	current uint8
	keys    map[uint8]*keys
}

// keys are what is derived from one secret.
type keys struct {
	records, prints macs
	seal            cipher.AEAD
}

// New returns a ring that makes records under the first secret and verifies
// under all of them. No secret: a nil ring. Every problem is reported at once.
func New(secrets ...Secret) (*Ring, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	var list problems.List
	r := &Ring{current: secrets[0].ID, keys: make(map[uint8]*keys, len(secrets))}
	for i, s := range secrets {
		switch {
		case s.ID == 0:
			list.Add("secret %d: id 0 is reserved; number secrets from 1", i+1)
		case r.keys[s.ID] != nil:
			list.Add("secret %d: id %d is used twice", i+1, s.ID)
		case len(s.Bytes) < MinSecret:
			list.Add("secret %d: %d bytes; at least %d", i+1, len(s.Bytes), MinSecret)
		default:
			k, err := derive(s.Bytes)
			list.AddErr(err)
			r.keys[s.ID] = k
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

func derive(secret []byte) (*keys, error) {
	prk, err := hkdf.Extract(sha256.New, secret, nil)
	if err != nil {
		return nil, err
	}
	key := func(purpose string) []byte {
		k, e := hkdf.Expand(sha256.New, prk, "redfence v1 "+purpose, 32)
		err = errors.Join(err, e)
		return k
	}
	k := &keys{records: newMACs(key("record")), prints: newMACs(key("fingerprint"))}
	block, e := aes.NewCipher(key("seal"))
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	k.seal, err = cipher.NewGCM(block)
	return k, err
}

// Current is the id of the secret that new records are made under; 0: none.
func (r *Ring) Current() uint8 {
	if r == nil {
		return 0
	}
	return r.current
}

func (r *Ring) key(id uint8) (*keys, error) {
	if r == nil || r.keys[id] == nil {
		return nil, ErrUnknownKey
	}
	return r.keys[id], nil
}

// Tag appends the tag of data under a secret to dst.
func (r *Ring) Tag(dst []byte, id uint8, data []byte) ([]byte, error) {
	k, err := r.key(id)
	if err != nil {
		return dst, err
	}
	return k.records.sum(dst, data), nil
}

// Verify reports whether tag is the tag of data under a secret of the ring.
func (r *Ring) Verify(id uint8, data, tag []byte) bool {
	var sum [TagSize]byte
	want, err := r.Tag(sum[:0], id, data)
	return err == nil && hmac.Equal(want, tag)
}

// Fingerprint appends a digest of a request, keyed under a secret, to dst.
func (r *Ring) Fingerprint(dst []byte, id uint8, sum []byte) ([]byte, error) {
	k, err := r.key(id)
	if err != nil {
		return dst, err
	}
	return k.prints.sum(dst, sum), nil
}

// Seal appends nonce and ciphertext of plain to dst, bound to data that stays
// in the clear. Nonces are random: one secret is good for 2³² sealed bodies.
func (r *Ring) Seal(dst []byte, id uint8, plain, bound []byte) ([]byte, error) {
	k, err := r.key(id)
	if err != nil {
		return dst, err
	}
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails: crypto/rand crashes the program instead
	return k.seal.Seal(append(dst, nonce[:]...), nonce[:], plain, bound), nil
}

// Open returns what Seal was given. ErrUnknownKey or ErrOpen otherwise.
func (r *Ring) Open(id uint8, sealed, bound []byte) ([]byte, error) {
	k, err := r.key(id)
	if err != nil {
		return nil, err
	}
	if len(sealed) < Overhead {
		return nil, ErrOpen
	}
	plain, err := k.seal.Open(nil, sealed[:nonceSize], sealed[nonceSize:], bound)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// macs reuses the state of one HMAC key; setting one up costs as much as
// hashing a short record.
type macs struct{ pool *sync.Pool }

func newMACs(key []byte) macs {
	return macs{&sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (m macs) sum(dst, data []byte) []byte {
	h := m.pool.Get().(hash.Hash)
	h.Reset()
	h.Write(data)
	dst = h.Sum(dst)
	m.pool.Put(h)
	return dst
}
