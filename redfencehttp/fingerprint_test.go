package redfencehttp

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func FuzzFingerprint(f *testing.F) {
	f.Add("a=1&b=2&a=3", "application/json; charset=utf-8", []byte(`{"b":1,"a":[2]}`))
	f.Add("", "multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"))
	f.Add("%zz&;", "multipart/mixed; boundary=\"\"", []byte("--\r\n"))
	f.Add("a", "no type at all/", []byte{0, 255})
	f.Fuzz(func(t *testing.T, query, contentType string, body []byte) {
		request := func(query string) *http.Request {
			return &http.Request{Method: "POST", URL: &url.URL{Path: "/a", RawQuery: query}, Header: http.Header{"Content-Type": {contentType}}}
		}
		for _, v := range []FingerprintVersion{RawBody, CanonicalJSON} {
			r := request(query)
			sum := v.sum(r, body)
			if v.sum(r, bytes.Clone(body)) != sum {
				t.Fatal("one request, two fingerprints")
			}
			if values, err := url.ParseQuery(query); err == nil && v.sum(request(values.Encode()), body) != sum {
				t.Fatalf("the order of names in %q counts", query)
			}
			media, _ := mediaType(contentType)
			if !isMultipart(media) && !(v == CanonicalJSON && isJSON(media)) && v.sum(r, append(bytes.Clone(body), 'x')) == sum {
				t.Fatal("a longer body has the same fingerprint")
			}
			fp := v.fingerprint(r, body)
			if same, ok := fp.Other(uint8(v)); !ok || !bytes.Equal(same, sum[:]) {
				t.Fatal("the algorithm does not know itself")
			}
			if _, ok := fp.Other(99); ok {
				t.Fatal("an unknown algorithm was computed")
			}
		}
	})
}

// No two requests whose parts run into each other have one fingerprint.
func TestPartsDoNotRunTogether(t *testing.T) {
	seen := map[string]string{}
	for _, tc := range [][4]string{
		{"POST", "/a", "b=c", "d"}, {"POST", "/ab", "=c", "d"}, {"POST", "/a", "b=cd", ""}, {"POST", "/a", "b=c&d", ""}, {"POST", "/a", "bc=", "d"},
		{"POST", "/a", "b=c&b=", "d"}, {"POST", "/a", "", "b=cd"}, {"POSTa", "/", "b=c", "d"}, {"POST", "/a%2Fb", "", ""}, {"POST", "/a/b", "", ""},
	} {
		r := &http.Request{Method: tc[0], Header: http.Header{}}
		r.URL, _ = url.Parse(tc[1])
		r.URL.RawQuery = tc[2]
		sum := RawBody.sum(r, []byte(tc[3]))
		if other, twice := seen[string(sum[:])]; twice {
			t.Errorf("%v and %s", tc, other)
		}
		seen[string(sum[:])] = strings.Join(tc[:], " ")
	}
}
