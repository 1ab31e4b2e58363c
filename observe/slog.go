package observe

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// NewSlog returns an observer that writes one line per event: the event's name
// as the message, its fields as attributes in snake case, empty ones left out.
// A nil logger means slog.Default().
//
// What a person should look at has the level Warn: a changed route, a lost or
// refused claim, an answer that is not durable, an unknown outcome, a node that
// is down or badly set up. What happens for every request has Debug, the rest
// Info.
//
// Keys appear as their Ref only. Fields that may quote a key or what a handler
// said are left out (marked `slog:"-"`), or cut at the first colon
// (`slog:"head"`): the engine's caller has that error and knows what may be
// logged of it.
//
// Writing takes time: put a Fanout in front.
func NewSlog(logger *slog.Logger) Observer {
	if logger == nil {
		logger = slog.Default()
	}
	return Func(func(e Event) {
		ctx, level := context.Background(), levelOf(e)
		if logger.Enabled(ctx, level) {
			logger.LogAttrs(ctx, level, e.Name(), attrs(e)...)
		}
	})
}

// levelOf says who should see an event.
func levelOf(e Event) slog.Level {
	switch e := e.(type) {
	case DoFinished, ClaimGranted, CacheRead, CachePut, FallbackRecovered, HandedOver,
		LockAcquired, LockRefused, LockReleased, CanaryProbed:
		return slog.LevelDebug
	case RouteChanged, ClaimLost, NotDurable, OutcomeUnknown, NodeDown, NodeWarning,
		LockLost, LockBroken, CacheUnverified, NodeSetDiffers, LedgerAdopted, LedgerSplit, EventsDropped:
		return slog.LevelWarn
	case ClaimEnded:
		return warnIf(e.Result == "refused", slog.LevelDebug)
	case LateCompletion:
		return warnIf(e.Result == "refused" || e.Result == "abandoned", slog.LevelInfo)
	case LedgerSwept:
		return warnIf(e.Err != nil, slog.LevelDebug)
	case RecoveryAsked:
		return warnIf(e.Err != nil, slog.LevelInfo)
	}
	return slog.LevelInfo
}

func warnIf(bad bool, otherwise slog.Level) slog.Level {
	if bad {
		return slog.LevelWarn
	}
	return otherwise
}

// attrs reads the fields of an event. Reflection keeps this complete when an
// event gets a field; it is paid for by lines that are written only.
func attrs(e Event) []slog.Attr {
	v := reflect.ValueOf(e)
	if v.Kind() != reflect.Struct {
		return nil
	}
	list := make([]slog.Attr, 0, v.NumField())
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag := field.Tag.Get("slog")
		value, ok := valueOf(v.Field(i).Interface())
		if tag == "-" || !ok {
			continue
		}
		if tag == "head" {
			head, _, _ := strings.Cut(value.String(), ":")
			value = slog.StringValue(head)
		}
		list = append(list, slog.Attr{Key: snake(field.Name), Value: value})
	}
	return list
}

// valueOf returns the value to write; ok is false for an empty one.
func valueOf(x any) (v slog.Value, ok bool) {
	switch x := x.(type) {
	case nil:
		return v, false
	case Ref:
		return slog.StringValue(x.String()), x != Ref{}
	case Route:
		return slog.StringValue(string(x)), x != ""
	case string:
		return slog.StringValue(x), x != ""
	case []string:
		return slog.StringValue(strings.Join(x, ",")), len(x) > 0
	case error:
		return slog.StringValue(x.Error()), true
	case time.Duration:
		return slog.DurationValue(x), true
	case time.Time:
		return slog.TimeValue(x), !x.IsZero()
	}
	return slog.AnyValue(x), true
}

// snake turns TakenOver into taken_over and OK into ok.
func snake(name string) string {
	var b strings.Builder
	lower := false // the rune before is lower case
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
