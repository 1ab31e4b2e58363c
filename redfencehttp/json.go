package redfencehttp

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// canonicalJSON returns the canonical form of RFC 8785 (JSON Canonicalization
// Scheme): no white space, members sorted by their names in UTF-16, strings and
// numbers as ECMAScript writes them. ok is false for what has no such form
// (not JSON, a name twice, no valid Unicode, a number out of range) and for
// what would lose meaning in it: numbers of more than 15 digits, which a double
// cannot tell apart, and nesting deeper than maxDepth.
func canonicalJSON(text []byte) (canonical []byte, ok bool) {
	if !utf8.Valid(text) {
		return nil, false
	}
	p := jsonParser{rest: string(text)}
	out, err := p.value(make([]byte, 0, len(text)), 0)
	if err != nil {
		return nil, false
	}
	if p.space(); p.rest != "" {
		return nil, false
	}
	return out, true
}

const (
	maxDepth  = 256
	maxDigits = 15
)

var errNoCanonicalForm = errors.New("no canonical form")

// A jsonParser reads JSON off the front of a text and appends its canonical
// form.
type jsonParser struct{ rest string }

func (p *jsonParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take removes a prefix, after white space.
func (p *jsonParser) take(prefix string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *jsonParser) value(out []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errNoCanonicalForm
	}
	for _, literal := range [...]string{"null", "true", "false"} {
		if p.take(literal) {
			return append(out, literal...), nil
		}
	}
	switch {
	case p.take("{"):
		return p.object(out, depth)
	case p.take("["):
		return p.array(out, depth)
	case p.take(`"`):
		s, err := p.text()
		return appendJSONString(out, s), err
	}
	return p.number(out)
}

func (p *jsonParser) array(out []byte, depth int) ([]byte, error) {
	out = append(out, '[')
	if p.take("]") {
		return append(out, ']'), nil
	}
	for {
		var err error
		if out, err = p.value(out, depth+1); err != nil {
			return nil, err
		}
		if p.take("]") {
			return append(out, ']'), nil
		}
		if !p.take(",") {
			return nil, errNoCanonicalForm
		}
		out = append(out, ',')
	}
}

// A member is one name of an object and the canonical form of its value.
type member struct {
	name  []uint16
	utf8  string
	value []byte
}

func (p *jsonParser) object(out []byte, depth int) ([]byte, error) {
	var members []member
	for more := !p.take("}"); more; more = !p.take("}") {
		if len(members) > 0 && !p.take(",") {
			return nil, errNoCanonicalForm
		}
		m, err := p.member(depth)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].utf8 == m.utf8 {
				return nil, errNoCanonicalForm // which of the two would count?
			}
			out = append(out, ',')
		}
		out = append(appendJSONString(out, m.utf8), ':')
		out = append(out, m.value...)
	}
	return append(out, '}'), nil
}

func (p *jsonParser) member(depth int) (member, error) {
	if !p.take(`"`) {
		return member{}, errNoCanonicalForm
	}
	name, err := p.text()
	if err != nil {
		return member{}, err
	}
	if !p.take(":") {
		return member{}, errNoCanonicalForm
	}
	value, err := p.value(nil, depth+1)
	return member{name: utf16.Encode([]rune(name)), utf8: name, value: value}, err
}

// text reads a string after its opening quote.
func (p *jsonParser) text() (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexAny(p.rest, "\"\\")
		if i < 0 || hasControl(p.rest[:i]) {
			return "", errNoCanonicalForm
		}
		b.WriteString(p.rest[:i])
		quote := p.rest[i] == '"'
		p.rest = p.rest[i+1:]
		if quote {
			return b.String(), nil
		}
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
	}
}

func hasControl(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' }) >= 0
}

// escape reads what follows a backslash.
func (p *jsonParser) escape() (rune, error) {
	if p.rest == "" {
		return 0, errNoCanonicalForm
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == 'u' {
		return p.escapedRune()
	}
	const names, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(names, c); i >= 0 {
		return rune(meanings[i]), nil
	}
	return 0, errNoCanonicalForm
}

// escapedRune reads four digits, and another escape for the second half of a
// surrogate pair. A lone half is no Unicode.
func (p *jsonParser) escapedRune() (rune, error) {
	r, err := p.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	rest, ok := strings.CutPrefix(p.rest, `\u`)
	if !ok {
		return 0, errNoCanonicalForm
	}
	p.rest = rest
	low, err := p.hex()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, errNoCanonicalForm
	}
	return r, nil
}

func (p *jsonParser) hex() (rune, error) {
	if len(p.rest) < 4 {
		return 0, errNoCanonicalForm
	}
	n, err := strconv.ParseUint(p.rest[:4], 16, 16)
	if err != nil || p.rest[0] == '+' {
		return 0, errNoCanonicalForm
	}
	p.rest = p.rest[4:]
	return rune(n), nil
}

// number reads a number of the JSON grammar and appends the shortest form that
// ECMAScript gives the same double.
func (p *jsonParser) number(out []byte) ([]byte, error) {
	p.space()
	n := numberLength(p.rest)
	if n == 0 {
		return nil, errNoCanonicalForm
	}
	lexeme := p.rest[:n]
	p.rest = p.rest[n:]
	if significantDigits(lexeme) > maxDigits {
		return nil, errNoCanonicalForm
	}
	f, err := strconv.ParseFloat(lexeme, 64)
	if err != nil || (f == 0 && significantDigits(lexeme) > 0) { // out of range, either end
		return nil, errNoCanonicalForm
	}
	return appendJSONNumber(out, f), nil
}

// numberLength is how much of s is one number; 0 if s does not begin with one.
func numberLength(s string) int {
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	first := 0
	if first < len(s) && s[first] == '-' {
		first++
	}
	i := digits(first)
	if i == first || (s[first] == '0' && i > first+1) {
		return 0
	}
	if i < len(s) && s[i] == '.' {
		end := digits(i + 1)
		if end == i+1 {
			return 0
		}
		i = end
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		exponent := i + 1
		if exponent < len(s) && (s[exponent] == '+' || s[exponent] == '-') {
			exponent++
		}
		end := digits(exponent)
		if end == exponent {
			return 0
		}
		i = end
	}
	return i
}

// significantDigits counts the digits of the mantissa between its first and
// last one that is not 0.
func significantDigits(lexeme string) int {
	if e := strings.IndexAny(lexeme, "eE"); e >= 0 {
		lexeme = lexeme[:e]
	}
	mantissa := strings.Replace(strings.TrimPrefix(lexeme, "-"), ".", "", 1)
	return len(strings.Trim(mantissa, "0"))
}

// appendJSONNumber follows Number.prototype.toString of ECMAScript: plain
// decimals from 1e-6 up to 1e21, exponents outside, no negative zero.
func appendJSONNumber(out []byte, f float64) []byte {
	if f == 0 {
		return append(out, '0')
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	sign, digits := exponent[:1], strings.TrimLeft(exponent[1:], "0")
	return append(out, mantissa+"e"+sign+digits...)
}

// appendJSONString escapes what RFC 8785 asks for, and nothing else.
func appendJSONString(out []byte, s string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(s) {
		c := s[i]
		switch short := strings.IndexByte("\b\t\n\f\r\"\\", c); {
		case short >= 0:
			out = append(out, '\\', `btnfr"\`[short])
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
