//go:build !chaos

// Package failpoint stops, delays or breaks the engine at named places. It
// exists only in builds with the tag chaos: without the tag every call is
// empty, is inlined away and leaves neither code nor names in the binary.
package failpoint

import "context"

// Hit does what the environment asks for at this point; nothing without the
// tag chaos.
func Hit(context.Context, string) error { return nil }

// Mutant reports whether the named rule is broken on purpose; false without
// the tag chaos.
func Mutant(string) bool { return false }

// Chance draws whether something happens that is seldom without chaos; false
// without the tag chaos.
func Chance(string) bool { return false }

// Text returns the text of a statement or script as it is.
func Text(_, text string) string { return text }
