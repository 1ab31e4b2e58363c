// Package chi shows Redfence in front of chi.
package chi
