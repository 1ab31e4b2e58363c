package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/redfence/redfence/gateway"
)

type passwordCommand struct {
	User string `arg:"" help:"Name of the user."`
}

// Run reads a password from standard input, so that it stands in no history
// and no list of processes, and prints the line for a users file.
func (c passwordCommand) Run(a *app) error {
	lines := bufio.NewScanner(os.Stdin)
	if !lines.Scan() || lines.Text() == "" {
		return errors.Join(errors.New("no password on standard input"), lines.Err())
	}
	hash, err := gateway.HashPassword(lines.Text())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s:%s\n", c.User, hash)
	return err
}
