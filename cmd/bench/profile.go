package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"runtime/trace"
)

// startProfiles starts what the command line asks for; the returned function
// ends it.
func startProfiles(o options) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, s := range stops {
			errs = append(errs, s())
		}
		return errors.Join(errs...)
	}
	start := func(path string, begin func(*os.File) error, end func()) error {
		file, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		if err := begin(file); err != nil {
			return errors.Join(fmt.Errorf("profile: %w", err), file.Close())
		}
		stops = append(stops, func() error { end(); return file.Close() })
		return nil
	}
	if o.cpuprofile != "" {
		err = start(o.cpuprofile, func(f *os.File) error { return pprof.StartCPUProfile(f) }, pprof.StopCPUProfile)
	}
	if o.trace != "" && err == nil {
		err = start(o.trace, func(f *os.File) error { return trace.Start(f) }, trace.Stop)
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}
