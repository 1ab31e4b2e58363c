package redfencehttp

import (
	"errors"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// maxKey is the longest key after unquoting, in bytes.
const maxKey = 255

var (
	errKeySyntax = errors.New("the key is neither a quoted string nor visible ASCII without quotes, commas and semicolons")
	errKeyLength = errors.New("the key must have 1 to 255 bytes")
	errTwoKeys   = errors.New("the request carries two different keys")
)

// headerKey returns the key that the request carries in the named headers, and
// whether it carries one at all. Names are canonical. All values must agree.
func headerKey(h http.Header, names []string) (key string, found bool, err error) {
	for _, name := range names {
		for _, value := range h[name] {
			k, err := fieldKey(value)
			if err != nil {
				return "", true, err
			}
			if found && k != key {
				return "", true, errTwoKeys
			}
			key, found = k, true
		}
	}
	return key, found, nil
}

// fieldKey returns the key of one field value: one key, or the same several
// times in a list, as intermediaries join fields.
func fieldKey(value string) (string, error) {
	first, rest, more := cutElement(value)
	key, err := elementKey(first)
	for more && err == nil {
		var next, k string
		next, rest, more = cutElement(rest)
		if k, err = elementKey(next); err == nil && k != key {
			err = errTwoKeys
		}
	}
	return key, err
}

// cutElement cuts the first element off a list. A comma inside a quoted string
// does not end it.
func cutElement(list string) (element, rest string, more bool) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return list, "", false
}

// elementKey returns the key of one element: a structured-field string, whose
// parameters are ignored, or a bare key. Nothing inside it is folded or trimmed.
func elementKey(element string) (string, error) {
	element = strings.Trim(element, " \t")
	key := element
	if strings.HasPrefix(element, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{element})
		if err != nil {
			return "", errKeySyntax
		}
		text, ok := item.Value.(string)
		if !ok {
			return "", errKeySyntax
		}
		key = text
	} else if !isBare(element) {
		return "", errKeySyntax
	}
	if len(key) == 0 || len(key) > maxKey {
		return "", errKeyLength
	}
	return key, nil
}

// isBare accepts what clients send without quotes. UUIDs that start with a
// digit are no token of any RFC, so the set is wider than theirs.
func isBare(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' {
			return false
		}
	}
	return true
}
