package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// instancePackage is the program that the controller runs several times.
const instancePackage = "github.com/redfence/redfence/chaos/instance"

// Build makes the instance binary, with failpoints and mutants in it, and
// returns its path. It must run inside the module.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "instance")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "chaos", "-buildvcs=false", "-o", binary, instancePackage)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("chaos: build the instance: %w (run this inside the module, with go in PATH)\n%s", err, out)
	}
	return binary, nil
}
