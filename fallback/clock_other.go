//go:build !linux

package fallback

import "time"

var started = time.Now()

// boot returns the monotonic time since the process started. Where the system
// offers nothing that counts suspension, an estimate carried across one is
// behind: on such systems leave the machine awake or the cache off.
func boot() time.Duration { return time.Since(started) }
