package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/problems"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitInvalid = 2
)

// cli is the command line.
type cli struct {
	Serve    serveCommand    `cmd:"" help:"Put a gateway in front of a service: each request with an idempotency key reaches it once."`
	Migrate  migrateCommand  `cmd:"" help:"Create or upgrade the ledger's schema, or print what that takes."`
	Doctor   doctorCommand   `cmd:"" help:"Check Redis nodes and ledger; each finding comes with the next step."`
	Status   statusCommand   `cmd:"" help:"Show which nodes answer, whether the ledger does, and the route that follows."`
	Keys     keysCommand     `cmd:"" help:"Look at keys, or erase their responses."`
	Resolve  resolveCommand  `cmd:"" help:"Decide a key whose outcome is unknown."`
	Password passwordCommand `cmd:"" name:"hash-password" help:"Make the line of a user for basic auth; reads the password from standard input."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

// app is what commands work with.
type app struct {
	ctx    context.Context
	stdout io.Writer
	stderr io.Writer
	given  map[string]string // flags of the command line with their values, without what the environment gave
}

// hint completes the commands that a text advises by the flags that they need.
func (a *app) hint(text string) string {
	if schema := a.given["schema"]; schema != "" {
		text = strings.ReplaceAll(text, "redfence migrate", "redfence migrate --schema "+schema)
	}
	return text
}

// given returns the flags that a command line has.
func given(command *kong.Context) map[string]string {
	flags := map[string]string{}
	for _, p := range command.Path {
		if p.Flag != nil && !p.Resolved {
			flags[p.Flag.Name] = fmt.Sprint(p.Flag.Target)
		}
	}
	return flags
}

func main() {
	redis.SetLogger(quiet{})
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// quiet keeps the Redis client from writing a line for each failed dial: what
// matters about nodes is in the events.
type quiet struct{}

// Printf implements the client's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// run is the program: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	return runContext(ctx, args, stdout, stderr)
}

func runContext(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code := -1
	parser, err := kong.New(new(cli),
		kong.Name("redfence"),
		kong.Description("Redfence makes work happen once.\n\nExit codes: 0 all is well; 1 it did not work, or a check has found something; "+
			"2 the command line or the configuration is wrong."),
		kong.DefaultEnvars("REDFENCE"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { code = c }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "redfence:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if code >= 0 {
		return code // --help
	}
	if err != nil {
		fmt.Fprintf(stderr, "redfence: %v\nrun redfence %s--help\n", err, commandOf(err))
		return exitInvalid
	}
	a := &app{ctx: ctx, stdout: stdout, stderr: stderr, given: given(command)}
	return a.report(command.Run(a))
}

// commandOf names the command whose flags were wrong.
func commandOf(err error) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil {
		return ""
	}
	name := ""
	for _, p := range wrong.Context.Path {
		if p.Command != nil {
			name += p.Command.Name + " "
		}
	}
	return name
}

// errInvalid marks what the caller has to change before it can work.
var errInvalid = errors.New("invalid configuration")

// errFound says that a check has found something and has told it.
var errFound = errors.New("problems were found")

// invalid makes an error of problems that the caller has to fix; nil when
// there are none.
func invalid(list *problems.List) error {
	if err := list.Err(); err != nil {
		return &invalidError{err}
	}
	return nil
}

type invalidError struct{ err error }

func (e *invalidError) Error() string   { return e.err.Error() }
func (e *invalidError) Unwrap() []error { return []error{errInvalid, e.err} }

// An advised error comes with the next step.
type advised struct {
	err  error
	next string
}

func (e *advised) Error() string { return e.err.Error() + ": " + e.next }
func (e *advised) Unwrap() error { return e.err }

// report tells each problem on a line of its own, and what to do on the next.
func (a *app) report(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFailed
	}
	for _, problem := range problems.All(err) {
		var with *advised
		if !errors.As(problem, &with) {
			fmt.Fprintln(a.stderr, "redfence:", a.hint(oneLine(problem)))
			continue
		}
		fmt.Fprintf(a.stderr, "redfence: %s\nredfence: next: %s\n", oneLine(with.err), a.hint(with.next))
	}
	if errors.Is(err, errInvalid) {
		return exitInvalid
	}
	return exitFailed
}

// oneLine is the text of an error on one line, without the name of the program
// that some begin with.
func oneLine(err error) string {
	return strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "redfence: ")
}
