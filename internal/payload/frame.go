package payload

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrMalformed says that bytes are no payload of a version that this binary
// knows. They may come from a store that anybody could write to.
var ErrMalformed = errors.New("malformed payload")

// A Response is what is recorded: a response, or an error's text.
type Response struct {
	Status int
	// Header holds all values of a name in order. Names are not folded.
	Header map[string][]string
	Body   []byte
	// Err is the text of a stored error. IsErr tells an empty one from none;
	// Status, Header and Body are not recorded beside it.
	Err   string
	IsErr bool
}

// The frame, inside the envelope:
//
//	kind     1 byte: 1 response, 2 error
//	error    text to the end of the frame
//	response status    varint, zigzag
//	         headers   length of the section in bytes, uvarint, then
//	                   number of names, number of values, uvarint, then for
//	                   each name, sorted: name, number of its values, values;
//	                   each string is its length, uvarint, and its bytes
//	         body      to the end of the frame
const (
	kindResponse = 1
	kindError    = 2
)

func appendFrame(dst []byte, r *Response) []byte {
	if r.IsErr {
		return append(append(dst, kindError), r.Err...)
	}
	dst = append(dst, kindResponse)
	dst = binary.AppendVarint(dst, int64(r.Status))
	section := appendHeader(nil, r.Header)
	dst = binary.AppendUvarint(dst, uint64(len(section)))
	dst = append(dst, section...)
	return append(dst, r.Body...)
}

// appendHeader sorts the names, so that one response has one encoding.
func appendHeader(dst []byte, header map[string][]string) []byte {
	if len(header) == 0 {
		return dst
	}
	names := make([]string, 0, len(header))
	values := 0
	for name, all := range header {
		names = append(names, name)
		values += len(all)
	}
	slices.Sort(names)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	dst = binary.AppendUvarint(dst, uint64(values))
	for _, name := range names {
		dst = appendString(dst, name)
		dst = binary.AppendUvarint(dst, uint64(len(header[name])))
		for _, value := range header[name] {
			dst = appendString(dst, value)
		}
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// parseFrame shares the body's memory with b.
func parseFrame(b []byte) (Response, error) {
	if len(b) == 0 {
		return Response{}, ErrMalformed
	}
	kind, b := b[0], b[1:]
	switch kind {
	case kindError:
		return Response{IsErr: true, Err: string(b)}, nil
	case kindResponse:
		return parseResponse(b)
	}
	return Response{}, ErrMalformed
}

func parseResponse(b []byte) (Response, error) {
	status, n := binary.Varint(b)
	if n <= 0 || int64(int(status)) != status {
		return Response{}, ErrMalformed
	}
	b = b[n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return Response{}, ErrMalformed
	}
	section, body := b[n:n+int(size)], b[n+int(size):len(b):len(b)]
	header, err := parseHeader(section)
	if err != nil {
		return Response{}, err
	}
	return Response{Status: int(status), Header: header, Body: body}, nil
}

// parseHeader makes one string of the section and cuts names and values out of
// it. A name takes at least two bytes and a value one, so the counts bound what
// is allocated by a multiple of what was received.
func parseHeader(section []byte) (map[string][]string, error) {
	if len(section) == 0 {
		return nil, nil
	}
	c := cutter{rest: string(section)}
	names, values := c.count(2), c.count(1)
	if c.bad {
		return nil, ErrMalformed
	}
	header := make(map[string][]string, names)
	all := make([]string, 0, values)
	for range names {
		name, n := c.text(), c.count(1)
		if c.bad || n > values-len(all) {
			return nil, ErrMalformed
		}
		first := len(all)
		for range n {
			all = append(all, c.text())
		}
		header[name] = all[first:len(all):len(all)]
	}
	if c.bad || c.rest != "" || len(all) != values || len(header) != names {
		return nil, ErrMalformed
	}
	return header, nil
}

// A cutter takes strings and counts off the front of a text.
type cutter struct {
	rest string
	bad  bool
}

// count reads how many items follow, each of at least the given size.
func (c *cutter) count(size int) int {
	n := c.uvarint()
	if n > uint64(len(c.rest)/size) {
		c.bad = true
		return 0
	}
	return int(n)
}

func (c *cutter) text() string {
	n := c.uvarint()
	if n > uint64(len(c.rest)) {
		c.bad = true
		return ""
	}
	s := c.rest[:n]
	c.rest = c.rest[n:]
	return s
}

func (c *cutter) uvarint() uint64 {
	var value uint64
	for i := 0; i < len(c.rest) && i < binary.MaxVarintLen64; i++ {
		value |= uint64(c.rest[i]&0x7f) << (7 * i)
		if c.rest[i] < 0x80 {
			c.rest = c.rest[i+1:]
			return value
		}
	}
	c.bad = true
	return 0
}
