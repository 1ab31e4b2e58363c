package fallback

import (
	"time"

	"golang.org/x/sys/unix"
)

// boot returns the time since the machine started, suspension included: what
// an estimate of another machine's clock has to be carried on.
func boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
