// Package problems collects everything that is wrong with an input into one
// error of one line.
package problems

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// A List collects problems. Its zero value is empty and ready.
type List struct{ all *multierror.Error }

// Add adds one problem.
func (l *List) Add(format string, args ...any) { l.AddErr(fmt.Errorf(format, args...)) }

// AddErr adds an error, unless it is nil. The problems of another List are
// added one by one.
func (l *List) AddErr(err error) {
	if err == nil {
		return
	}
	l.all = multierror.Append(l.all, err)
	l.all.ErrorFormat = oneLine
}

// Err returns nil when there is no problem, else one error that lists and
// unwraps to all of them.
func (l *List) Err() error { return l.all.ErrorOrNil() }

// All returns the problems that err lists, or err alone.
func All(err error) []error {
	var list *multierror.Error
	if errors.As(err, &list) {
		return list.Errors
	}
	return []error{err}
}

func oneLine(all []error) string {
	texts := make([]string, len(all))
	for i, err := range all {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}
