package main

import (
	"fmt"
	"runtime/debug"

	"github.com/redfence/redfence/fallback"
)

type versionCommand struct{}

// Run prints the version of the module and of the schema that it knows.
func (versionCommand) Run(a *app) error {
	version, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = ", revision " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(a.stdout, "redfence %s%s, schema %d\n", version, revision, fallback.SchemaVersion)
	return err
}
