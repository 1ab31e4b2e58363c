// Package meta holds tests of the repository itself: who imports whom, which
// modules a user of a package gets, that every exported name is documented,
// that files stay short, and that the pages of docs/ name what exists.
package meta
