package redfencehttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/redfence/redfence"
)

// A FingerprintVersion names an algorithm that tells two requests with one key
// apart. It is recorded with the key, so that a route may change it while older
// records live: those are compared under the algorithm that made them.
type FingerprintVersion uint8

const (
	// RawBody compares method, path, sorted query, media type and the bytes of
	// the body; multipart bodies part by part, so that another boundary does
	// not change it.
	RawBody FingerprintVersion = 1
	// CanonicalJSON is RawBody, except that JSON bodies are compared in the
	// canonical form of RFC 8785. A body that has none, or whose numbers a
	// double cannot hold exactly, is compared byte by byte.
	CanonicalJSON FingerprintVersion = 2
)

// fingerprint returns the engine's view of the request. The body has been read.
func (v FingerprintVersion) fingerprint(r *http.Request, body []byte) redfence.Fingerprint {
	sum := v.sum(r, body)
	return redfence.Fingerprint{
		Version: uint8(v),
		Sum:     sum[:],
		Other: func(version uint8) ([]byte, bool) {
			other := FingerprintVersion(version)
			if other != RawBody && other != CanonicalJSON {
				return nil, false
			}
			sum := other.sum(r, body)
			return sum[:], true
		},
	}
}

// How a body was brought into the sum, so that no two forms meet.
const (
	bodyRaw       = "raw"
	bodyJSON      = "json"
	bodyMultipart = "multipart"
)

func (v FingerprintVersion) sum(r *http.Request, body []byte) [sha256.Size]byte {
	d := digester{sha256.New()}
	d.text(r.Method)
	d.text(r.URL.EscapedPath())
	d.query(r.URL.RawQuery)
	media, params := mediaType(r.Header.Get("Content-Type"))
	d.text(media)
	v.body(d, media, params, body)
	return [sha256.Size]byte(d.h.Sum(nil))
}

func (v FingerprintVersion) body(d digester, media string, params map[string]string, body []byte) {
	if boundary := params["boundary"]; boundary != "" && isMultipart(media) {
		if parts, ok := multipartSum(body, boundary); ok {
			d.text(bodyMultipart)
			d.bytes(parts)
			return
		}
	}
	if v == CanonicalJSON && isJSON(media) {
		if canonical, ok := canonicalJSON(body); ok {
			d.text(bodyJSON)
			d.bytes(canonical)
			return
		}
	}
	d.text(bodyRaw)
	d.bytes(body)
}

// mediaType returns the lower-case media type without its parameters; a value
// that does not parse stands for itself.
func mediaType(contentType string) (string, map[string]string) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return contentType, nil
	}
	return media, params
}

func isMultipart(media string) bool { return strings.HasPrefix(media, "multipart/") }

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// A digester hashes texts with their lengths, so that no two lists of texts
// hash alike.
type digester struct{ h hash.Hash }

func (d digester) bytes(b []byte) {
	d.number(len(b))
	d.h.Write(b)
}

func (d digester) text(s string) { d.bytes([]byte(s)) }

func (d digester) number(n int) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(n))
	d.h.Write(size[:])
}

// query hashes the parameters sorted by name; the values of one name keep their
// order, which may matter. A query that does not parse stands for itself.
func (d digester) query(raw string) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		d.text(raw)
		return
	}
	d.values(values)
}

func (d digester) values(values map[string][]string) {
	d.number(len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		d.text(name)
		d.number(len(values[name]))
		for _, value := range values[name] {
			d.text(value)
		}
	}
}

// multipartSum hashes the parts of a body in their order: headers, then bytes.
// ok is false when the body is not what its boundary says.
func multipartSum(body []byte, boundary string) (sum []byte, ok bool) {
	d := digester{sha256.New()}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return d.h.Sum(nil), true
		}
		if err != nil {
			return nil, false
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, false
		}
		d.values(part.Header)
		d.bytes(content)
	}
}
