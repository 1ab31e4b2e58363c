//go:build race

package main

// raceDetector slows the search tenfold and can find nothing in it: a run is
// one goroutine.
const raceDetector = true
