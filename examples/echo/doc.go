// Package echo shows Redfence in front of echo.
package echo
