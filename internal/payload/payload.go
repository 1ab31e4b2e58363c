// Package payload encodes a response once: the same bytes go to the ledger and
// to the cache and come back from either.
//
// An envelope of version 1 is
//
//	version  1 byte: 1
//	flags    1 byte: 1 compressed (zstd), 2 sealed (AES-256-GCM); others are
//	         refused
//	key id   1 byte; 0: not sealed
//	content  the frame (see frame.go), compressed if flagged, then sealed if
//	         flagged: nonce, ciphertext, tag, bound to the three bytes before
//	         and to the digest of the key that the response belongs to
//
// so a later version is told apart, not misread.
//
// # Guarantees
//
// Encoding is deterministic unless the payload is sealed: names are sorted,
// values keep their order. Decoding never panics and allocates no more than a
// small multiple of what was received or, for a compressed payload, of
// Codec.MaxSize.
package payload

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/redfence/redfence/internal/keyring"
)

// ErrSealed says that a payload is sealed under a secret that is not at hand,
// or does not open: it can exist and yet not be replayed.
var ErrSealed = errors.New("payload does not open")

const (
	version = 1

	flagCompressed = 1 << 0
	flagSealed     = 1 << 1
	knownFlags     = flagCompressed | flagSealed

	envelopeSize = 3
)

// DefaultMaxSize bounds a decompressed frame when Codec.MaxSize is 0.
const DefaultMaxSize = 64 << 20

// A Codec encodes and decodes payloads. Its zero value neither compresses nor
// seals; it decodes compressed payloads all the same. It is safe for
// concurrent use.
type Codec struct {
	// CompressAbove compresses frames longer than this, in bytes, when that
	// makes them shorter. 0: never.
	CompressAbove int
	// Ring opens sealed payloads. Nil: they do not open.
	Ring *keyring.Ring
	// Seal encrypts new payloads under the ring's current secret.
	Seal bool
	// MaxSize bounds a decompressed frame, in bytes. Defaults to
	// DefaultMaxSize.
	MaxSize int
}

// Encode appends the envelope of a response to dst. The digest names the key
// that it belongs to; Decode must be given the same.
func (c *Codec) Encode(dst []byte, r *Response, digest []byte) ([]byte, error) {
	frame := appendFrame(nil, r)
	var flags, id byte
	if c.CompressAbove > 0 && len(frame) > c.CompressAbove {
		if small := encoder.EncodeAll(frame, nil); len(small) < len(frame) {
			frame, flags = small, flagCompressed
		}
	}
	if !c.Seal {
		return append(append(dst, version, flags, id), frame...), nil
	}
	flags, id = flags|flagSealed, c.Ring.Current()
	head := [envelopeSize]byte{version, flags, id}
	dst = append(dst, head[:]...)
	dst, err := c.Ring.Seal(dst, id, frame, bound(head, digest))
	if err != nil {
		return nil, fmt.Errorf("seal payload: %w", err)
	}
	return dst, nil
}

// Decode returns the response of an envelope. Its body shares memory with b.
// Errors: ErrMalformed, ErrSealed.
func (c *Codec) Decode(b, digest []byte) (Response, error) {
	if len(b) < envelopeSize || b[0] != version || b[1]&^knownFlags != 0 {
		return Response{}, ErrMalformed
	}
	head, frame := [envelopeSize]byte(b), b[envelopeSize:]
	if sealed := b[1]&flagSealed != 0; sealed != (b[2] != 0) {
		return Response{}, ErrMalformed
	} else if sealed {
		plain, err := c.Ring.Open(b[2], frame, bound(head, digest))
		if err != nil {
			return Response{}, fmt.Errorf("%w: secret %d: %w", ErrSealed, b[2], err)
		}
		frame = plain
	}
	if b[1]&flagCompressed != 0 {
		plain, err := c.decompress(frame)
		if err != nil {
			return Response{}, err
		}
		frame = plain
	}
	return parseFrame(frame)
}

func bound(head [envelopeSize]byte, digest []byte) []byte {
	return append(head[:], digest...)
}

// decompress refuses a frame that does not say how long it is, or is longer
// than the codec allows, before anything is allocated for it.
func (c *Codec) decompress(small []byte) ([]byte, error) {
	limit := uint64(DefaultMaxSize)
	if c.MaxSize > 0 {
		limit = uint64(c.MaxSize)
	}
	var head zstd.Header
	if err := head.Decode(small); err != nil || !head.HasFCS || head.FrameContentSize > limit {
		return nil, ErrMalformed
	}
	frame, err := decoder.DecodeAll(small, make([]byte, 0, min(head.FrameContentSize, limit)))
	if err != nil || uint64(len(frame)) != head.FrameContentSize {
		return nil, ErrMalformed
	}
	return frame, nil
}

// One encoder and one decoder serve the process: EncodeAll and DecodeAll are
// stateless and safe for concurrent use.
var (
	encoder = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithSingleSegment(true)))
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(DefaultMaxSize), zstd.WithDecodeAllCapLimit(true)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}
