package redfencehttp

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestCanonicalJSON(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : 1 , "a" : [ true , null ] } `:                  `{"a":[true,null],"b":1}`,
		`[1.0, 1e2, -0, 0.000001, 1E-7, 1e21, 1e20, 4.50, 2e-3]`: `[1,100,0,0.000001,1e-7,1e+21,100000000000000000000,4.5,0.002]`,
		`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`:        `"€$\u000f\nA'B\"\\\\\"/"`,
		`"😀"`:            `"😀"`,
		`{}`:             `{}`,
		`[]`:             `[]`,
		`""`:             `""`,
		`{"a":{"b":{}}}`: `{"a":{"b":{}}}`,
		// RFC 8785, 3.2.3: sorted by UTF-16, where U+1F600 comes before U+FB33.
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`: `{"\r":2,"1":4,"` + "\u0080" + `":6,"ö":7,"€":1,"😀":5,"` + "\ufb33" + `":3}`,
	} {
		got, ok := canonicalJSON([]byte(in))
		if !ok || string(got) != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", in, got, ok, want)
		}
	}
}

func TestNoCanonicalForm(t *testing.T) {
	for _, in := range []string{
		``, ` `, `{`, `[1,]`, `[,1]`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{a:1}`, `01`, `1.`, `.1`, `1e`, `+1`, `-`, `nul`,
		`"`, `"\x"`, `"\u12"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, "\"\n\"", "\"\xff\"", `[1] 2`, `"\u+123"`,
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`,
		`9007199254740993`, `0.1234567890123456`, // a double takes them for their neighbours
		`1e400`, `1e-400`, `NaN`,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	} {
		if got, ok := canonicalJSON([]byte(in)); ok {
			t.Errorf("%.40q: %s", in, got)
		}
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1.50,-0,1e3],"a":"\u00e9\n\ud83d\ude00"}`, `[[],{},"",null,true]`, `{"a":{"z":1,"y":2}}`, `1e21`, `5e-324`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, ok := canonicalJSON(in)
		if !ok {
			return
		}
		twice, ok := canonicalJSON(once)
		if !ok || !bytes.Equal(once, twice) {
			t.Fatalf("canon(%q) = %q, canon of that = %q, %v", in, once, twice, ok)
		}
		var before, after any
		if err := json.Unmarshal(in, &before); err != nil {
			t.Fatalf("%q has a canonical form and is not JSON: %v", in, err)
		}
		if err := json.Unmarshal(once, &after); err != nil {
			t.Fatalf("%q: %v", once, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", in, once)
		}
		// Equal meaning, equal form: what encoding/json writes of it.
		other, err := json.MarshalIndent(before, " ", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := canonicalJSON(other); ok && !bytes.Equal(again, once) {
			t.Fatalf("%q and %q mean the same: %q, %q", in, other, once, again)
		}
	})
}
