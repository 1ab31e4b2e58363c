package redfencehttp

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/redfence/redfence"
)

// alreadyProcessed is replayed where bodies are not recorded.
const alreadyProcessed = `{"cached":true,"message":"Request already processed"}`

// replay answers with a recorded response. Headers that outer middleware has
// set are replaced, not doubled.
func (rt *route) replay(w http.ResponseWriter, r *http.Request, res redfence.Result) {
	h := w.Header()
	if rt.withoutBodies {
		h.Set(ReplayedHeader, "true")
		mark(h, res.Fence, true)
		write(w, http.StatusOK, "application/json", []byte(alreadyProcessed))
		return
	}
	body, decoded, err := bodyFor(r, res.Response)
	if err != nil {
		rt.refuse(w, redfence.ErrNotReplayable)
		return
	}
	for name, values := range res.Response.Header {
		if !rt.denied[name] {
			h[name] = slices.Clone(values)
		}
	}
	if decoded {
		h.Del("Content-Encoding")
	}
	h.Set(ReplayedHeader, "true")
	mark(h, res.Fence, true)
	status := res.Response.Status
	if status < 200 || status > 999 {
		status = http.StatusOK // recorded by hand, without a status
	}
	if !bodyAllowed(status) {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// maxDecoded bounds a decoded body: a recorded one is small, what it unpacks to
// may not be.
const maxDecoded = 64 << 20

var errUndecodable = errors.New("the client does not accept the coding of the recorded body, and it cannot be decoded")

// bodyFor returns the body in a coding that the client accepts: as recorded, or
// decoded.
func bodyFor(r *http.Request, resp redfence.Response) (body []byte, decoded bool, err error) {
	codings := codingsOf(http.Header(resp.Header))
	if len(codings) == 0 || acceptsAll(r.Header, codings) {
		return resp.Body, false, nil
	}
	body = resp.Body
	for _, coding := range slices.Backward(codings) {
		if body, err = decode(coding, body); err != nil {
			return nil, false, err
		}
	}
	return body, true, nil
}

// codingsOf returns the codings in the order in which they were applied.
func codingsOf(h http.Header) []string {
	var codings []string
	for _, value := range h["Content-Encoding"] {
		for coding := range strings.SplitSeq(value, ",") {
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	return codings
}

// acceptsAll reads Accept-Encoding (RFC 9110, 12.5.3). Without the field a
// client is taken to want the body as it is: every client understands that.
func acceptsAll(h http.Header, codings []string) bool {
	weights := map[string]bool{}
	for _, value := range h["Accept-Encoding"] {
		for item := range strings.SplitSeq(value, ",") {
			coding, params, _ := strings.Cut(item, ";")
			weights[strings.ToLower(strings.TrimSpace(coding))] = !isZero(params)
		}
	}
	for _, coding := range codings {
		accepted, named := weights[coding]
		if !named {
			accepted = weights["*"]
		}
		if !accepted {
			return false
		}
	}
	return true
}

// isZero recognises the weight that refuses a coding.
func isZero(params string) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(params), "=")
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err == nil && q == 0
}

func decode(coding string, body []byte) ([]byte, error) {
	reader, err := decoderFor(coding, bytes.NewReader(body))
	if err != nil {
		return nil, errUndecodable
	}
	defer reader.Close()
	plain, err := io.ReadAll(io.LimitReader(reader, maxDecoded+1))
	if err != nil || len(plain) > maxDecoded {
		return nil, errUndecodable
	}
	return plain, nil
}

func decoderFor(coding string, body io.Reader) (io.ReadCloser, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case "deflate":
		return zlib.NewReader(body)
	case "zstd":
		d, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, errUndecodable
}
